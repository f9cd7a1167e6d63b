"""The jobs that run here, from the claims of their dlcs and the labels of their containers; stops one of them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dlc.core.atomic_files import hold_lock, try_lock
from dlc.core.errors import DlcError, UsageError
from dlc.core.labels import JOB
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ask_engine
from dlc.places.local.claims import read_address
from dlc.places.local.ended_jobs import read_ended_claims, read_facts
from dlc.places.local.watch import PROGRAM as WATCH

# Of a job that runs in the background: the file of its lines, in its folder.
LOG = "log"
# What a job is in: a dlc looks after it, or its dlc was killed, or it has ended, or only its containers are known here.
RUNS, LEFT, ENDED, FOREIGN = "runs", "left behind", "ended", "of another dlc"
ASK_AGAIN_SECONDS = 0.1
# In a job's folder: while it runs, and among its results
PROGRESS = ("hosts/*/output/data/launcher/progress.json", "output/launcher/progress.json")
MOST_PROGRESS_BYTES = 1 << 16
# What a claim says of a job.
FACTS = ("image", "folder", "pid", "started", "grace", "code")


@dataclass(frozen=True)
class KnownJob:
    """A job as its claim says it, and which containers the engine has of it."""

    id: str
    state: str
    address: str = ""
    image: str = ""
    folder: str = ""
    # Of the dlc that looks after it.
    pid: int = 0
    started: str = ""
    grace: int = 0
    # Its exit code, if it has ended by itself.
    code: int | None = None
    # Host -> what the engine says of its container: running, exited.
    hosts: Mapping[str, str] | None = None

    @property
    def progress(self) -> Mapping[str, object]:
        """Return how far the job is, as its launcher wrote it (docs/progress.md); empty if no step was made."""
        return read_progress(Path(self.folder)) if self.folder else {}

    @property
    def log(self) -> Path | None:
        """Return the file of its lines; None for a job that prints them on a terminal."""
        path = Path(self.folder) / LOG
        return path if self.folder and path.is_file() else None


def read_progress(folder: Path) -> dict[str, object]:
    """Return what the launcher wrote last of a job in this folder; nothing before its first step."""
    found = [_read_report(path) for pattern in PROGRESS for path in folder.glob(pattern)]
    return max(found, key=lambda told: str(told.get("updated")), default={})


def _read_report(path: Path) -> dict[str, object]:
    # A script may write there too.
    with suppress(OSError, ValueError), path.open() as file:
        told = json.loads(file.read(MOST_PROGRESS_BYTES))
        return told if isinstance(told, dict) else {}
    return {}


def list_jobs(claims_folder: Path, engine: Engine | None) -> list[KnownJob]:
    """Return the jobs of all claims, and those of which the engine alone knows, in the order of their names."""
    claimed = {job.id: job for job in read_claims(claims_folder)}
    found = find_containers(engine) if engine else {}
    foreign = {name: KnownJob(name, FOREIGN) for name in found if name not in claimed}
    address = (engine.address or "") if engine else None
    jobs = {**claimed, **foreign}
    return [
        replace(job, hosts=found.get(name, {})) if job.state == FOREIGN or job.address == address else job
        for name, job in sorted(jobs.items())
    ]


def find_job(claims_folder: Path, job_id: str) -> KnownJob:
    """Return a job that has a claim. Raises UsageError if it has ended, or was never known."""
    for job in read_claims(claims_folder):
        if job.id == job_id:
            return job
    raise absence_error(claims_folder, job_id)


def find_ended_job(claims_folder: Path, job_id: str) -> KnownJob | None:
    """Return a job that has ended and whose results are still there."""
    text = read_ended_claims(claims_folder).get(job_id)
    return _make_known(job_id, ENDED, text) if text else None


def absence_error(claims_folder: Path, job_id: str) -> UsageError:
    """Return the error for a job that does not run: it has ended, or has another name, or is nobody's."""
    wanted = f"{job_id}: expected a job that runs, found"
    if ended := find_ended_job(claims_folder, job_id):
        return UsageError(f"{wanted} that it has ended; its results: {ended.folder}", f"dlc logs {job_id}, or dlc ps")
    return UsageError(f"{wanted} none of that name", "dlc ps, or dlc ps --all")


def read_claims(folder: Path) -> list[KnownJob]:
    """Read the claims, of which each is of a job that runs if its dlc holds the file."""
    if not folder.is_dir():
        return []
    with hold_lock(folder):
        return [_read_claim(path) for path in sorted(folder.iterdir())]


def _read_claim(path: Path) -> KnownJob:
    text = path.read_text()
    return _make_known(path.name, RUNS if is_held(path) else LEFT, text)


def read_ended(claims_folder: Path) -> list[KnownJob]:
    """Return the jobs that have ended and whose results are still there, the newest last."""
    return [_make_known(name, ENDED, text) for name, text in read_ended_claims(claims_folder).items()]


def _make_known(name: str, state: str, text: str) -> KnownJob:
    found = read_facts(text)
    facts = {fact: found[fact] for fact in FACTS if fact in found}
    return KnownJob(name, state, read_address(text), **facts)


def is_held(claim: Path) -> bool:
    """Tell whether a dlc looks after the job of a claim: it has ended if the file is gone."""
    try:
        descriptor = os.open(claim, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def find_containers(engine: Engine, job_id: str = "") -> dict[str, dict[str, str]]:
    """Return the hosts of each job, or of one, that the engine has a container of, and the state of each."""
    label = f"label={JOB}={job_id}" if job_id else f"label={JOB}"
    form = f'{{{{.Label "{JOB}"}}}} {{{{.Names}}}} {{{{.State}}}}'
    rows = ask_engine(engine, "ps", "--all", "--filter", label, "--format", form).stdout.splitlines()
    found: dict[str, dict[str, str]] = {}
    for job, name, state in sorted(row.split(" ", 2) for row in rows if row):
        # TensorBoard is no host of the job.
        if (host := name.removeprefix(f"dlc-{job}-")) != WATCH:
            found.setdefault(job, {})[host] = state
    return found


def require_free_name(claims_folder: Path, job_id: str, engine: Engine) -> None:
    """Raise UsageError if a job has this name: what removes one of them would remove both."""
    taken = job_id in {job.id for job in read_claims(claims_folder)} or find_containers(engine, job_id)
    if taken:
        raise UsageError(f"--name {job_id}: expected a name that no job has, found a job of it", "dlc ps")


def stop_job(job: KnownJob, claims_folder: Path) -> None:
    """Ask the dlc that looks after a job to stop it, and return when that dlc has ended.

    Raises DlcError if it is no process that can be seen from here.
    """
    claim = claims_folder / job.id
    if not _holds(job.pid, claim):
        raise DlcError(
            f"{job.id}: the dlc that runs it (process {job.pid}) is not seen from here", "stop it where it was started"
        )
    with suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGTERM)
        # A dlc that Ctrl-Z has suspended hears nothing else.
        os.kill(job.pid, signal.SIGCONT)
    while is_held(claim):
        time.sleep(ASK_AGAIN_SECONDS)


def _holds(pid: int, claim: Path) -> bool:
    """Tell whether a process has the claim open: its number may be of another process, if it runs in a container."""
    with suppress(OSError):
        return any(_is_same(link, claim) for link in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _is_same(link: Path, file: Path) -> bool:
    with suppress(OSError):
        return link.samefile(file)
    return False


def stop_containers(engine: Engine, job: KnownJob, hosts: Sequence[str]) -> None:
    """Stop the containers that a killed dlc left: each has the job's time to save, which it was started with."""
    if hosts:
        # Longer than the engine waits itself.
        seconds = float(job.grace or 0) + 120.0
        engine.docker("stop", *(f"dlc-{job.id}-{host}" for host in hosts), timeout=seconds)
