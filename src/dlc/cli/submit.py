"""`dlc submit`: hands the job of a file to an engine that exists: Slurm, Kubernetes, SageMaker, or this machine's."""

from __future__ import annotations

import argparse
import os
import re
import secrets as random
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlc.buildspec.problems import Mark, Problem, raise_report
from dlc.core.environment import user_path
from dlc.core.errors import DlcError, UsageError
from dlc.jobs.job_file import JobFile, list_open_secrets, list_unset, read_job_file
from dlc.jobs.run.job import NAME, TOKEN
from dlc.jobs.run.job_folder import RESULTS
from dlc.submit.places import (
    LOCAL,
    PLACES,
    Document,
    Place,
    Refusal,
    SubmittedJob,
    load_place,
    make_submitted,
    read_place_options,
)
from dlc.submit.records import Record, find_record, note_end, write_record

HELP = "hand the job of a file to Slurm, Kubernetes or SageMaker"
EXAMPLE = "dlc submit job.yml --to slurm --with partition=gpu --dry-run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add FILE, --to, what a place is told, --dry-run, --wait."""
    parser.add_argument("file", metavar="FILE", help="a job's file; `dlc run ... --save FILE` writes one")
    parser.add_argument("--to", required=True, metavar="PLACE", help=f"{LOCAL}, {', '.join(PLACES)}")
    parser.add_argument(
        "--with", action="append", default=[], dest="words", metavar="KEY=VALUE",
        help="an option of the place, as below `places` in the file; may be repeated",
    )  # fmt: skip
    parser.add_argument("--image", default="", metavar="REF", help="the image where the place has it")
    parser.add_argument("--name", default="", metavar="JOB", help="the job's name (default: the file's, or the time)")
    parser.add_argument("--output", default="", metavar="DIR", help=f"the job's folder here (default: {RESULTS}/JOB)")
    parser.add_argument("--dry-run", action="store_true", help="print the document that the place would get")
    parser.add_argument(
        "--wait", action="store_true", help="print the job's lines until it ends, and end with its exit code"
    )


def run(args: argparse.Namespace) -> int:
    """Submit the job; print its id at the place."""
    file = read_job_file(user_path(args.file))
    for warning in list_open_secrets(file.spec):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    if args.to == LOCAL:
        return _run_here(args)
    place = load_place(args.to)
    options = read_place_options(place, args.to, file.node, args.words)
    job = _make_job(file, args)
    _raise_refusals(place.refuse_job(job, options), file, args.to)
    document = place.render_job(job, options)
    if args.dry_run:
        print(document.text, end="" if document.text.endswith("\n") else "\n")
        return 0
    file.raise_problems(list_unset(file, os.environ))
    return _submit(place, job, options, document, read_secrets(job, file), args)


def _run_here(args: argparse.Namespace) -> int:
    """Do as `dlc run FILE` does."""
    for option, value in (("--with", args.words), ("--image", args.image)):
        if value:
            raise UsageError(f"{option}: expected another place, found --to {LOCAL}", f"leave out {option}")
    words = [f"--{name}={value}" for name in ("name", "output") if (value := getattr(args, name))]
    words = [args.file, *words, *(["--explain"] if args.dry_run else [])]
    parser, verb = args.make_parser("run")
    here = parser.parse_intermixed_args(words)
    here.typed, here.arguments, here.misplaced = words, None, ""
    return int(verb.run(here))


def _make_job(file: JobFile, args: argparse.Namespace) -> SubmittedJob:
    name = args.name or file.spec.name or f"{datetime.now():%Y%m%d-%H%M%S}-{random.token_hex(3)}"
    if not re.fullmatch(NAME, name):
        raise UsageError(f"--name {name}: expected at most 63 letters, digits, _ . and -", "dlc submit --help")
    folder = user_path(args.output).absolute() if args.output else Path.cwd() / RESULTS / name
    return make_submitted(file, image=find_reference(args.image or file.spec.image), name=name, folder=folder)


def find_reference(word: str) -> str:
    """Return the Docker reference of an image; only an identifier needs the buildspec, which takes a while to read."""
    if set(word) & set(":/@"):
        return word
    from dlc.buildspec.matrix import load_variants
    from dlc.buildspec.selection import find_image
    from dlc.core.checkout import read_workspace
    from dlc.core.platforms import ANY_PLATFORM

    return find_image(word, load_variants(read_workspace(), platform=ANY_PLATFORM))[0]


def _raise_refusals(refusals: Sequence[Refusal], file: JobFile, place: str) -> None:
    """Raise one report of all that a place cannot do, at the lines of the file that say it."""
    raise_report(
        Problem(_find_mark(refusal, file, place), ".".join(refusal.keys), f"for {place} {refusal.expected}",
                refusal.found, refusal.hint)
        for refusal in refusals
    )  # fmt: skip


def _find_mark(refusal: Refusal, file: JobFile, place: str) -> Mark:
    """Return where the file says it; what it does not say itself is the place's."""
    keys = refusal.keys
    while keys:
        if node := file.node.at(keys):
            return node.mark
        keys = keys[:-1]
    return Mark(f"--to {place}")


def _submit(
    place: Place,
    job: SubmittedJob,
    options: Any,
    document: Document,
    secrets: Mapping[str, str],
    args: argparse.Namespace,
) -> int:
    job_id = place.submit_job(job, options, document, secrets)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        write_record(Record(job.name, args.to, job_id, str(job.folder), options.model_dump(mode="json"), now))
    except (OSError, DlcError) as error:
        # The job runs already.
        print(f"dlc: warning: {job.name} has no name here, only {job_id} --to {args.to}: {error}", file=sys.stderr)
    if not args.wait:
        print(job_id)
        print(f"dlc: its lines: dlc logs {job.name} -f; its end: dlc stop {job.name}", file=sys.stderr)
        return 0
    print(f"dlc: {job.name} is {job_id} on {args.to}", file=sys.stderr, flush=True)
    place.print_logs(job_id, options, sys.stdout, follow=True)
    code = place.wait_for_job(job_id, options)
    note_end(job.name)
    return code


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add --to and --with, for the verbs that look after jobs of a place."""
    parser.add_argument("--to", default="", metavar="PLACE", help=f"of this place: {LOCAL}, {', '.join(PLACES)}")
    parser.add_argument(
        "--with", action="append", default=[], dest="words", metavar="KEY=VALUE", help="an option of the place"
    )


def find_submitted(word: str, to: str, words: Sequence[str]) -> tuple[Place, str, Any] | None:
    """Return place, id there and options of a job that this machine submitted, or of any job of the place `to`.

    Return None for a job of this machine. Raises UsageError for a place that is none.
    """
    if to == LOCAL:
        return None
    record = find_record(word, to)
    if record:
        place = load_place(record.place)
        return place, record.id, place.OPTIONS.model_validate(record.options)
    if not to:
        return None
    place = load_place(to)
    return place, word, read_place_options(place, to, None, words)


def read_secrets(job: SubmittedJob, file: JobFile) -> dict[str, str]:
    """Return the values of the job's secrets, the file's before this shell's. The token is a new one without both."""
    shell = {name: os.environ[name] for name in job.secrets if name in os.environ}
    stated = {name: value for name, value in file.spec.environment.items() if isinstance(value, str)}
    return {TOKEN: random.token_hex(16), **shell, **{name: stated[name] for name in job.secrets if name in stated}}
