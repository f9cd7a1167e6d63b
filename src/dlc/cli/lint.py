"""`dlc lint`: what a compiler will stumble over in a training script; also as a note before a job's own lines."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from dlc.core.errors import HostError, ScriptError
from dlc.places.local.job import Job
from dlc_lint import command

HELP = "find in training scripts what keeps a compiler from making them faster"
EXAMPLE = "dlc lint train.py"
# Folders of what others wrote. Hidden folders are left out too.
NOT_OURS = {"__pycache__", "node_modules", "site-packages"}
COMPILER_VARIABLE, COMPILER_HYPERPARAMETER = "DLC_COMPILER", "sagemaker_training_compiler_enabled"
COMPILERS = ("inductor", "xla")
# The launcher reads a hyperparameter so.
ON = ("1", "true", "yes", "on")
MOST_LINES = 10


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


def lint_note(job: Job) -> list[str]:
    """Return the note's lines; none for a script that is no Python: that is for the job to say."""
    compiler = read_compiler(job)
    if compiler is None or importlib.util.find_spec("libcst") is None:
        return []
    from dlc_lint import BadScriptError, lint
    from dlc_lint.output import line
    from dlc_lint.script.parsing import read

    found = []
    for file in list_entry_points(job):
        try:
            found += [line(one) for one in lint(read(str(file)), file.name, compiler=compiler)]
        except BadScriptError:
            continue
    if not found:
        return []
    more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return ["dlc lint, because the job asks for a compiler:", *found[:MOST_LINES], *more]


def read_compiler(job: Job) -> str | None:
    """Return the compiler's name, "" for the image's default, None if no compiler is asked for."""
    stated = {**job.secrets, **job.environment}.get(COMPILER_VARIABLE, "").strip().lower()
    if stated:
        return stated if stated in COMPILERS else None
    return "" if job.hyperparameters.get(COMPILER_HYPERPARAMETER, "").strip(' "').lower() in ON else None


def list_entry_points(job: Job) -> list[Path]:
    """List the Python files that the job's groups start."""
    folders = [path for path in job.code if path.is_dir()]
    named = {job.program, *job.programs.values()}
    files = [folder / name for folder in folders for name in sorted(named) if name]
    files += [path for path in job.code if path.is_file()]
    return [file for file in files if file.suffix == ".py"]
