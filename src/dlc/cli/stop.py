"""`dlc stop`: stops a job as Ctrl-C on its terminal would; its hosts have the job's time to save."""

from __future__ import annotations

import argparse
import sys

from dlc.cli.arguments import show_step
from dlc.cli.run_job import CLAIMS, find_running_engine
from dlc.cli.submit import add_place, find_submitted
from dlc.core.environment import cache_folder
from dlc.core.errors import EngineError
from dlc.jobs.run.claims import remove_job
from dlc.jobs.run.known_jobs import RUNS, KnownJob, find_containers, find_job, stop_containers, stop_job

HELP = "stop a job: its hosts have its --grace to save, and its results are collected"
EXAMPLE = "dlc stop 20261120-093000-0a1b2c"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add JOB, --to, --with."""
    parser.add_argument("job", metavar="JOB", help="a job of dlc ps or dlc submit")
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Return when the job has ended; of a job at a place, when the place was asked."""
    if found := find_submitted(args.job, args.to, args.words):
        place, job_id, options = found
        place.stop_job(job_id, options)
        _say(f"{args.job} is asked to stop; dlc logs {args.job} -f ends when it has ended")
        return 0
    claims = cache_folder() / CLAIMS
    job = find_job(claims, args.job)
    if job.state == RUNS:
        _say(f"stopping {job.id}: {job.grace} s to save")
        with show_step(job.id, "ends"):
            stop_job(job, claims)
        _say(f"{job.id} has ended; results: {job.folder}")
    else:
        _stop_left(job)
    return 0


def _stop_left(job: KnownJob) -> None:
    """Stop the hosts of a job whose dlc was killed, and remove what is left of it."""
    engine = find_running_engine()
    if (engine.address or "") != job.address:
        raise EngineError(
            f"{job.id}: expected its engine, {job.address or 'that of the current context'}, found "
            f"{engine.address or 'that of the current context'}",
            f"DOCKER_HOST={job.address} dlc stop {job.id}" if job.address else f"unset DOCKER_HOST; dlc stop {job.id}",
        )
    hosts = find_containers(engine, job.id).get(job.id, {})
    stop_containers(engine, job, [host for host, state in hosts.items() if state == "running"])
    removed = remove_job(cache_folder() / CLAIMS, job.id, engine)
    _say(f"{job.id} was left by a killed dlc; removed {', '.join(removed) or 'its claim'}")
    _say(f"what its hosts wrote is in {job.folder}/hosts" if job.folder else "what its hosts wrote is in its folder")


def _say(line: str) -> None:
    print(f"dlc: {line}", file=sys.stderr, flush=True)
