"""What `dlc lint` says of a job's scripts, as a note before the job's own lines, if the job asks for a compiler."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from dlc.places.local.job import Job

COMPILER_VARIABLE, COMPILER_HYPERPARAMETER = "DLC_COMPILER", "sagemaker_training_compiler_enabled"
COMPILERS = ("inductor", "xla")
# The launcher reads a hyperparameter so.
ON = ("1", "true", "yes", "on")
MOST_LINES = 10


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
