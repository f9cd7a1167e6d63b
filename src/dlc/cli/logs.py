"""`dlc logs`: the lines of a job that runs, and of one that ran in the background."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dlc.cli.run_job import CLAIMS, find_running_engine
from dlc.cli.submit import add_place, find_submitted
from dlc.core.environment import cache_folder, user_path
from dlc.core.errors import DlcError, UsageError
from dlc.jobs.run.job_folder import RESULTS
from dlc.jobs.run.job_log import print_containers, print_log
from dlc.jobs.run.known_jobs import LOG, find_containers, find_job

HELP = "print the lines of a job"
EXAMPLE = "dlc logs 20261120-093000-0a1b2c -f"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add JOB, --follow, --to, --with."""
    parser.add_argument(
        "job", metavar="JOB", help="a job of dlc ps or dlc submit, or one of the background that has ended"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends; Ctrl-C leaves it alone")
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Print the lines; with --follow until the job ends."""
    if found := find_submitted(args.job, args.to, args.words):
        place, job_id, options = found
        place.print_logs(job_id, options, sys.stdout, follow=args.follow)
        return 0
    claims = cache_folder() / CLAIMS
    if ended := _find_ended(args.job):
        print_log(ended, claims / ended.parent.name if args.follow else None, sys.stdout)
        return 0
    job = find_job(claims, args.job)
    if job.log:
        print_log(job.log, claims / job.id if args.follow else None, sys.stdout)
        return 0
    engine = find_running_engine()
    hosts = find_containers(engine, job.id).get(job.id)
    if not hosts:
        raise DlcError(f"{job.id}: expected containers of the job, found none", "it may just begin: try again")
    print_containers(engine, job.id, list(hosts), follow=args.follow)
    return 0


def _find_ended(word: str) -> Path | None:
    """Return the log that a job left in the folder of results here, or in the folder that the word is."""
    places = [Path(RESULTS) / word / LOG, *([user_path(word) / LOG] if "/" in word else [])]
    found = next((path for path in places if path.is_file()), None)
    if "/" in word and not found:
        raise UsageError(f"{word}: expected the folder of a job that ran in the background, found no {LOG}", "dlc ps")
    return found.absolute() if found else None
