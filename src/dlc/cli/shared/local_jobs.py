"""A job of this machine that a verb is told, by words or by a file: read, placed, made."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlc.cli.shared.job_specs import Images, place_job, raise_refusals, read_open_file
from dlc.cli.shared.own_words import is_job_file, names_script
from dlc.core.errors import UsageError
from dlc.job.job_spec import JobSpec
from dlc.job.stated_job import StatedJob
from dlc.job.words import list_typed, read_words
from dlc.places.local.job import Job, make_job
from dlc.places.place import LOCAL, load_place, read_place_options


@dataclass(frozen=True)
class LocalJob:
    """A job of this machine: as it was said, what the place is told of it besides, and its hosts and folders."""

    spec: JobSpec
    options: Any
    job: Job


def make_local_job(
    args: argparse.Namespace, verb: str, *, name: str = "", prefix: str = "", words: Sequence[str] = ()
) -> LocalJob:
    """Make the job of this machine that a verb is told; `words` are options of the place, as --with has them."""
    images = Images()
    stated = read_job(args, verb, images)
    stated.raise_problems(stated.spec.list_unset(os.environ))
    options = read_place_options(load_place(LOCAL), LOCAL, stated.node, words)
    spec, options = images.fit_job(place_job(stated.spec, verb, name, args.output, images, prefix=prefix), options)
    raise_refusals(spec, options, stated, LOCAL)
    job = make_job(spec, os.environ, secrets.token_hex(16))
    return LocalJob(spec, options, replace(job, platform=options.platform))


def read_job(args: argparse.Namespace, verb: str, images: Images) -> StatedJob:
    """Return the job of IMAGE, SCRIPT and the options of a job, or that of a file in place of IMAGE."""
    if verb == "run" and is_job_file(args.image):
        return _read_file_alone(args)
    if names_script(args.image) and not Path(args.script).is_file():
        raise order_error(verb, args.image, args.script)
    if args.misplaced:
        print(f"dlc: {args.misplaced}", file=sys.stderr)
    # Of two mistakes this one is told first: what else is wrong may follow from it.
    images.find_reference(args.image)
    try:
        return read_words(args)
    except UsageError as error:
        raise UsageError(error.message, f"dlc {verb} --help") from None


def _read_file_alone(args: argparse.Namespace) -> StatedJob:
    """Return the job of a file. Raises UsageError for an option that would have to be in the file."""
    typed = [flag.option for flag, _ in list_typed(args)]
    if args.script or args.arguments or typed:
        found = args.script or (typed[0] if typed else "-- ARGUMENT")
        raise UsageError(
            f"dlc run {args.image}: expected all of the job in the file, found {found} too",
            f"write it into {args.image}",
        )
    return read_open_file(args.image)


def order_error(verb: str, script: str, behind: str) -> UsageError:
    """Return the error of a script that stands where the image belongs."""
    image = "ID" if not behind or behind.startswith("-") else behind
    return UsageError(
        f"dlc {verb}: expected ID SCRIPT, found a script first: {script}",
        f"dlc {verb} {shlex.join([image, script])} ...",
    )
