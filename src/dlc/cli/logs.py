"""`dlc logs`: the lines of a job: of this machine, in the background too, or of a place that took it."""

from __future__ import annotations

import argparse
import sys

from dlc.cli.shared.placed_jobs import add_place, find_submitted

HELP = "print the lines of a job"
EXAMPLE = "dlc logs 20261120-093000-0a1b2c -f"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add JOB, --follow, --to, --with."""
    parser.add_argument(
        "job", metavar="JOB", help="a job of dlc ps or dlc submit, or an ended one of dlc ps --all, or its folder"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends; Ctrl-C leaves it alone")
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Print the lines; with --follow until the job ends."""
    place, job_id, options = find_submitted(args.job, args.to, args.words)
    place.print_logs(job_id, options, sys.stdout, follow=args.follow)
    return 0
