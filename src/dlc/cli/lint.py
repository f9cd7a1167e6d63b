"""`dlc lint`: what a compiler will stumble over in a training script."""

from __future__ import annotations

import argparse
import importlib.util

from dlc.core.errors import HostError, ScriptError
from dlc_lint import command

HELP = "find in training scripts what keeps a compiler from making them faster"
EXAMPLE = "dlc lint train.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCRIPT, --framework, --compiler, --json, --sarif, --fix, --no-torchfix."""
    command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 where there are some. Raises ScriptError afterwards for scripts that cannot be read."""
    if importlib.util.find_spec("libcst") is None:
        raise HostError("libcst, which reads the scripts, is not installed", "make setup")
    result = command.run(args)
    if result.errors:
        *others, last = result.errors
        before = "".join(f"{error}\ndlc: " for error in others)
        raise ScriptError(f"{before}{str(last).partition(chr(10))[0]}", last.remedy)
    return command.exit_code(result)
