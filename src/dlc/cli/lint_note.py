"""What `dlc lint` finds in the entry points of a job that asks for a compiler: a note before the job's own lines."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from dlc.jobs.run.job import Job

SWITCH, ENABLED = "DLC_COMPILER", "sagemaker_training_compiler_enabled"
COMPILERS = ("inductor", "xla")
ON = ("1", "true", "yes", "on")  # as the launcher reads a hyperparameter
MOST_LINES = 10


def lint_note(job: Job) -> list[str]:
    """Nothing for a script that is no Python: that is for the job to say."""
    compiler = asked(job)
    if compiler is None or importlib.util.find_spec("libcst") is None:
        return []
    from dlc_lint import BadScriptError, lint
    from dlc_lint.output import line
    from dlc_lint.script.parsing import read

    found = []
    for file in entry_points(job):
        try:
            found += [line(one) for one in lint(read(str(file)), file.name, compiler=compiler)]
        except BadScriptError:
            continue
    if not found:
        return []
    more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return ["dlc lint, because the job asks for a compiler:", *found[:MOST_LINES], *more]


def asked(job: Job) -> str | None:
    """The compiler's name, "" where the image's default is meant, None where none is asked for."""
    stated = {**job.secrets, **job.environment}.get(SWITCH, "").strip().lower()
    if stated:
        return stated if stated in COMPILERS else None
    return "" if job.hyperparameters.get(ENABLED, "").strip(' "').lower() in ON else None


def entry_points(job: Job) -> list[Path]:
    """The Python files that the job's groups start."""
    folders = [path for path in job.code if path.is_dir()]
    named = {job.program, *job.programs.values()}
    files = [folder / name for folder in folders for name in sorted(named) if name]
    files += [path for path in job.code if path.is_file()]
    return [file for file in files if file.suffix == ".py"]
