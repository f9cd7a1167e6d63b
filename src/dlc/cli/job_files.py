"""A job's file for `dlc run`: written from the words of a command line, or read in their place."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from dlc.core.atomic_files import replace_text
from dlc.core.environment import user_path
from dlc.core.errors import DlcError, UsageError
from dlc.jobs.job_file import (
    SECRET,
    JobFile,
    format_job,
    list_local_refusals,
    list_open_secrets,
    list_unset,
    make_options,
    read_job_file,
)
from dlc.jobs.run.job import Job, Options

ENDINGS = (".yml", ".yaml", ".json")
# What stays on the command line of a job that is in a file.
BESIDE = ("output", "name", "image", "script", "detach", "explain", "json", "save", "remove", "typed", "verbs",
          "make_parser")  # fmt: skip


def is_job_file(word: str | None) -> bool:
    """Tell whether a word of the command line is the name of a job's file, not of an image."""
    return bool(word) and str(word).endswith(ENDINGS)


def read_file_options(args: argparse.Namespace, defaults: argparse.Namespace) -> tuple[JobFile, Options]:
    """Return the job's file and its words. Raises UsageError for an option that would have to be in the file."""
    typed = [name for name, value in vars(defaults).items() if name not in BESIDE and getattr(args, name) != value]
    if args.script or args.arguments or typed:
        found = args.script or (f"--{typed[0].replace('_', '-')}" if typed else "-- ARGUMENT")
        raise UsageError(
            f"dlc run {args.image}: expected all of the job in the file, found {found} too",
            f"write it into {args.image}",
        )
    file = read_job_file(user_path(args.image))
    for warning in list_open_secrets(file.spec):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    file.raise_problems([*list_local_refusals(file), *list_unset(file, os.environ)])
    return file, make_options(file)


def save_job(job: Job, options: Options, name: str, path: Path) -> int:
    """Write the job's file, and say what it does not hold."""
    path = path.absolute()
    if path.exists():
        raise DlcError(f"{path}: expected no file, found one", "name another file, or remove it")
    replace_text(path, format_job(job, options, name, path.parent))
    for variable in filter(SECRET.search, options.environment):
        print(f"dlc: {variable} is not written: the shell that starts the job has to have it", file=sys.stderr)
    print(path)
    return 0
