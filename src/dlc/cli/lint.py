"""`dlc lint`: what a compiler will stumble over in training scripts."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from dlc.core.errors import HostError, ScriptError
from dlc_lint import command

HELP = "find in training scripts what keeps a compiler from making them faster"
EXAMPLE = "dlc lint train.py"
# Folders of what others wrote. Hidden folders are left out too.
NOT_OURS = {"__pycache__", "node_modules", "site-packages"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add SCRIPT or a folder of scripts, --framework, --compiler, --json, --sarif, --fix, --no-torchfix."""
    command.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; return 1 if there are any. Raises ScriptError afterwards for scripts that cannot be read."""
    if importlib.util.find_spec("libcst") is None:
        raise HostError("libcst, which reads the scripts, is not installed", "pip install libcst")
    args.scripts = [script for word in args.scripts for script in _list_scripts(word)]
    result = command.run(args)
    if result.errors:
        *others, last = result.errors
        before = "".join(f"{error}\ndlc: " for error in others)
        raise ScriptError(f"{before}{str(last).partition(chr(10))[0]}", last.remedy)
    return command.exit_code(result)


def _list_scripts(word: str) -> Iterator[str]:
    """Yield the word itself, or the Python scripts in a folder.

    A folder without any stays, to be told with the others.
    """
    folder = Path(word)
    if not folder.is_dir():
        yield word
        return
    found = [path for path in sorted(folder.rglob("*.py")) if not _is_left_out(path.relative_to(folder))]
    yield from map(str, found or [folder])


def _is_left_out(path: Path) -> bool:
    return any(part in NOT_OURS or part.startswith(".") for part in path.parts)
