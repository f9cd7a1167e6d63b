"""Which dlc looks after which job: a locked file for each job, and what killed dlcs left on an engine.

Each job that a dlc looks after has a locked file. The kernel unlocks a file when its process ends, however it ends: a
file that can be locked is of a job that nobody looks after any more. Its first line is the engine's address, its
second one says in JSON what the job is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from dlc.core.atomic_files import hold_lock, report_disk_errors, try_lock
from dlc.core.environment import cache_folder
from dlc.core.errors import DlcError
from dlc.engine.docker_client import Engine
from dlc.places.local import lifecycle
from dlc.places.local.ended_jobs import end_claim
from dlc.places.local.job import Job

# Of the claims, in the cache.
FOLDER = "jobs"
# For what the engine refuses to remove: a new job waits for it.
LEFTOVER_SECONDS = 10.0


def claims_folder() -> Path:
    """Return the folder of this user's claims."""
    return cache_folder() / FOLDER


@dataclass
class Claim:
    """A job that this process looks after."""

    path: Path
    engine: Engine
    # The engine still has something of it.
    left: bool = False
    # The job's exit code, once it has ended by itself.
    code: int | None = None

    def clear(self) -> None:
        """Remove the job's containers and its network. What stays is no error of the job, which has ended."""
        # Until it is known that nothing is left: a Ctrl-C may come.
        self.left = True
        try:
            lifecycle.remove_containers(self.engine, self.path.name)
            self.left = False
        except DlcError as error:
            _warn_of_leftovers(error, self.path.name)


def make_facts(job: Job) -> dict[str, object]:
    """Return what a claim says of a job, whose dlc is this process."""
    return {
        "image": job.image,
        "folder": str(job.folder),
        "pid": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "grace": job.stop_seconds,
    }


@contextmanager
def claim_job(
    folder: Path, job_id: str, engine: Engine, facts: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Claim]:
    """Look after a job in the block. The file goes when the block ends well and has left nothing on the engine.

    `facts` are what `dlc ps` and its like will know of the job.
    """
    path = folder / job_id
    with report_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with report_disk_errors(folder), hold_lock(folder):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try_lock(descriptor)
    claim = Claim(path, engine)
    try:
        _write_claim(path, descriptor, _format_claim(engine, facts))
        yield claim
        if not claim.left:
            _note_code(claim, descriptor, facts)
            end_claim(path)
    finally:
        os.close(descriptor)


def _note_code(claim: Claim, descriptor: int, facts: Mapping[str, object]) -> None:
    """Write the job's exit code into its claim. On a full disk the claim is lost, which costs the job nothing."""
    if claim.code is not None:
        with suppress(DlcError):
            os.truncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            _write_claim(claim.path, descriptor, _format_claim(claim.engine, {**facts, "code": claim.code}))


def _format_claim(engine: Engine, facts: Mapping[str, object]) -> bytes:
    return f"{engine.address or ''}\n{json.dumps(dict(facts))}\n".encode()


def _write_claim(path: Path, descriptor: int, text: bytes) -> None:
    """Write all of a claim. On a full disk none is left, for the next dlc would read half of it."""
    with report_disk_errors(path.parent):
        try:
            while text:
                text = text[os.write(descriptor, text) :]
        except OSError:
            path.unlink()
            raise


def remove_leftovers(folder: Path, engine: Engine) -> list[str]:
    """Remove what killed dlcs left on this engine; return the names of what there was.

    What stays is no error of a new job.
    """
    removed: list[str] = []
    for path, descriptor in take_abandoned(folder):
        try:
            if read_address(path.read_text()) == (engine.address or ""):
                removed += lifecycle.remove_containers(engine, path.name, LEFTOVER_SECONDS)
                end_claim(path)
        except DlcError as error:
            _warn_of_leftovers(error, path.name)
        finally:
            os.close(descriptor)
    return removed


def read_address(claim: str) -> str:
    """Return the engine's address from a claim's text."""
    return claim.partition("\n")[0]


def _warn_of_leftovers(error: DlcError, job_id: str) -> None:
    print(
        f"dlc: warning: left behind: {error.message}; the next job removes it, or: dlc run --remove {job_id}",
        file=sys.stderr,
    )


def remove_job(folder: Path, job_id: str, engine: Engine) -> list[str]:
    """Remove one job by its id, whoever started it. Raises DlcError if a dlc still looks after it."""
    with suppress(FileNotFoundError):
        descriptor = os.open(folder / job_id, os.O_RDWR)
        try:
            if not try_lock(descriptor):
                raise DlcError(f"{job_id}: a dlc still runs this job", f"dlc stop {job_id}")
            removed = lifecycle.remove_containers(engine, job_id)
            end_claim(folder / job_id)
            return removed
        finally:
            os.close(descriptor)
    return lifecycle.remove_containers(engine, job_id)


def take_abandoned(folder: Path) -> list[tuple[Path, int]]:
    """Return the files that nobody holds, with descriptors that hold them now."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return []
    found = []
    with hold_lock(folder):
        for path in sorted(folder.iterdir()):
            descriptor = os.open(path, os.O_RDWR)
            if try_lock(descriptor):
                found.append((path, descriptor))
            else:
                os.close(descriptor)
    return found
