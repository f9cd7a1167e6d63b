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
from dlc.jobs.run.known_jobs import ENDED, LOG, KnownJob, absence_error, find_containers, find_ended_job, read_claims

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
    if found := find_submitted(args.job, args.to, args.words):
        place, job_id, options = found
        place.print_logs(job_id, options, sys.stdout, follow=args.follow)
        return 0
    claims = cache_folder() / CLAIMS
    job = _find_job(claims, args.job)
    if job.log:
        print_log(job.log, claims / job.id if args.follow else None, sys.stdout)
        return 0
    if job.state == ENDED:
        raise DlcError(
            f"{job.id}: expected a job of the background, found one that ended where its lines were printed",
            f"its results are in {job.folder}; dlc run --detach keeps the lines too",
        )
    engine = find_running_engine()
    hosts = find_containers(engine, job.id).get(job.id)
    if not hosts:
        raise DlcError(f"{job.id}: expected containers of the job, found none", "it may just begin: try again")
    print_containers(engine, job.id, list(hosts), follow=args.follow)
    return 0


def _find_job(claims: Path, word: str) -> KnownJob:
    """Return the job that a name or its folder means: one that runs before an ended one, whatever folder this is.

    Raises UsageError if there is none.
    """
    if "/" in word:
        folder = user_path(word).absolute()
        if not (folder / LOG).is_file():
            raise UsageError(f"{word}: expected the folder of a job of the background, found no {LOG}", "dlc ps --all")
        return KnownJob(folder.name, ENDED, folder=str(folder))
    here = Path(RESULTS).absolute() / word
    running = next((job for job in read_claims(claims) if job.id == word), None)
    if found := running or find_ended_job(claims, word):
        return found
    # Of a dlc with another cache, or so long ago that no claim is left.
    if (here / LOG).is_file():
        return KnownJob(word, ENDED, folder=str(here))
    raise absence_error(claims, word)
