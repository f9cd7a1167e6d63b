"""`dlc stop`: stops a job as Ctrl-C on its terminal would; its hosts have the job's time to save."""

from __future__ import annotations

import argparse
import sys

from dlc.cli.shared.arguments import show_step
from dlc.cli.shared.placed_jobs import add_place, find_submitted

HELP = "stop a job: its hosts have its --grace to save, and its results are collected"
EXAMPLE = "dlc stop 20261120-093000-0a1b2c"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add JOB, --to, --with."""
    parser.add_argument("job", metavar="JOB", help="a job of dlc ps or dlc submit")
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Return when the job has ended; of a place that takes its time, when the place was asked."""
    place, job_id, options = find_submitted(args.job, args.to, args.words)
    with show_step(args.job, "ends"):
        said = place.stop_job(job_id, options)
    print(f"dlc: {said}", file=sys.stderr, flush=True)
    return 0
