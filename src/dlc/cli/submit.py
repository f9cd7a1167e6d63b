"""`dlc submit`: hands the job of a file to an engine that exists: Slurm, Kubernetes, SageMaker, or this machine's."""

from __future__ import annotations

import argparse
import os
import secrets as random
import sys
from collections.abc import Mapping
from typing import Any

from dlc.cli.shared.job_specs import Images, place_job, raise_refusals, read_open_file
from dlc.cli.shared.placed_jobs import note_submitted
from dlc.job.code_files import RESULTS
from dlc.job.job_spec import PLACES, JobSpec
from dlc.places.place import LOCAL, Document, Place, load_place, read_place_options
from dlc.places.records import note_end

HELP = "hand the job of a file to Slurm, Kubernetes, SageMaker or another place"
EXAMPLE = "dlc submit job.yml --to slurm --with partition=gpu --dry-run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add FILE, --to, what a place is told, --dry-run, --wait."""
    parser.add_argument("file", metavar="FILE", help="a job's file; `dlc run ... --save FILE` writes one")
    parser.add_argument("--to", required=True, metavar="PLACE", help=f"{', '.join(PLACES)}")
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
    stated = read_open_file(args.file)
    place = load_place(args.to)
    options = read_place_options(place, args.to, stated.node, args.words)
    spec, images = stated.spec.model_copy(update={"image": args.image or stated.spec.image}), Images()
    job = place_job(spec, "submit", args.name, args.output, images)
    if args.to == LOCAL:
        job, options = images.fit_job(job, options)
    raise_refusals(job, options, stated, args.to)
    document = place.render_job(job, options)
    if args.dry_run:
        print(document.text, end="" if document.text.endswith("\n") else "\n")
        return 0
    stated.raise_problems(job.list_unset(os.environ))
    return _submit(place, job, options, document, job.read_secrets(os.environ, random.token_hex(16)), args)


def _submit(
    place: Place,
    job: JobSpec,
    options: Any,
    document: Document,
    secrets: Mapping[str, str],
    args: argparse.Namespace,
) -> int:
    job_id = place.submit_job(job, options, document, secrets)
    if args.to != LOCAL:
        note_submitted(job, args.to, job_id, options)
    if not args.wait:
        print(job_id)
        print(f"dlc: its lines: dlc logs {job.name} -f; its end: dlc stop {job.name}", file=sys.stderr)
        return 0
    print(f"dlc: {job.name} is {job_id} on {args.to}", file=sys.stderr, flush=True)
    place.print_logs(job_id, options, sys.stdout, follow=True)
    code = place.wait_for_job(job_id, options)
    note_end(job.name)
    return code
