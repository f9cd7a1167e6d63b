"""Jobs that run on this machine, or ran in its background: their lines, their end, a stop."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, TextIO

from dlc.core.environment import user_path
from dlc.core.errors import DlcError, EngineError, UsageError
from dlc.engine.connection import find_engine, find_running_engine
from dlc.job.code_files import RESULTS
from dlc.places.local.claims import claims_folder, remove_job
from dlc.places.local.job_log import print_containers, print_log
from dlc.places.local.known_jobs import (
    ASK_AGAIN_SECONDS,
    ENDED,
    LOG,
    RUNS,
    KnownJob,
    absence_error,
    find_containers,
    find_ended_job,
    find_job,
    is_held,
    read_claims,
    stop_containers,
)
from dlc.places.local.known_jobs import list_jobs as list_known
from dlc.places.local.known_jobs import stop_job as stop_known
from dlc.places.place import ListedJob

# Of a job whose dlc was killed, or that was stopped.
UNKNOWN_CODE = 1


def list_jobs(options: Any) -> list[ListedJob]:
    """Return the jobs that a dlc of this user looks after, and those that are left on the engine."""
    return [
        ListedJob(job.id, job.id, job.state, job.started, str(len(job.hosts or ())))
        for job in list_known(claims_folder(), find_engine())
    ]


def print_logs(job_id: str, options: Any, out: TextIO, *, follow: bool) -> None:
    """Print the lines of a job, which may be named by its folder; with `follow` until the job ends."""
    claims = claims_folder()
    job = _find_job(claims, job_id)
    if job.log:
        print_log(job.log, claims / job.id if follow else None, out)
        return
    if job.state == ENDED:
        raise DlcError(
            f"{job.id}: expected a job of the background, found one that ended where its lines were printed",
            f"its results are in {job.folder}; dlc run --detach keeps the lines too",
        )
    engine = find_running_engine()
    hosts = find_containers(engine, job.id).get(job.id)
    if not hosts:
        raise DlcError(f"{job.id}: expected containers of the job, found none", "it may just begin: try again")
    print_containers(engine, job.id, list(hosts), follow=follow)


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


def wait_for_job(job_id: str, options: Any) -> int:
    """Return the job's exit code when it has ended."""
    claims = claims_folder()
    while is_held(claims / job_id):
        time.sleep(ASK_AGAIN_SECONDS)
    ended = find_ended_job(claims, job_id)
    return UNKNOWN_CODE if ended is None or ended.code is None else ended.code


def stop_job(job_id: str, options: Any) -> str:
    """Stop a job and return when it has ended; its hosts have the job's grace to save."""
    job = find_job(claims_folder(), job_id)
    if job.state != RUNS:
        return _stop_left(job)
    print(f"dlc: stopping {job.id}: {job.grace} s to save", file=sys.stderr, flush=True)
    stop_known(job, claims_folder())
    return f"{job.id} has ended; results: {job.folder}"


def _stop_left(job: KnownJob) -> str:
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
    removed = remove_job(claims_folder(), job.id, engine)
    where = f"{job.folder}/hosts" if job.folder else "its folder"
    left = f"{job.id} was left by a killed dlc; removed {', '.join(removed) or 'its claim'}"
    return f"{left}; what its hosts wrote is in {where}"
