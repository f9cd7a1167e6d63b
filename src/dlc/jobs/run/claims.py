"""Which jobs on this machine a dlc still looks after: a locked file each. What a killed dlc left is removed.

The kernel unlocks a file when its process ends, however it ends. So a file that can be locked is of a job that nobody
looks after any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dlc.core.drafts import writing
from dlc.core.errors import DlcError
from dlc.core.file_lock import exclusive, try_lock
from dlc.engine.connection import Engine
from dlc.jobs.run import hosts

LEFTOVER_SECONDS = 10.0  # for what the engine refuses to remove: a new job waits for it


@dataclass
class Claim:
    """A job that this process looks after. `left`: the engine still has something of it."""

    path: Path
    engine: Engine
    left: bool = False

    def clear(self) -> None:
        """Remove the job's containers and its network. What stays is no error of the job, which has ended."""
        self.left = True  # until it is known that nothing is: a Ctrl-C may come
        try:
            hosts.remove(self.engine, self.path.name)
            self.left = False
        except DlcError as error:
            _warn(error, self.path.name)


@contextmanager
def claimed(folder: Path, job_id: str, engine: Engine) -> Iterator[Claim]:
    """Look after a job in the block. The file goes when the block ends well and has left nothing on the engine."""
    path = folder / job_id
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), exclusive(folder):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try_lock(descriptor)
    claim = Claim(path, engine)
    try:
        os.write(descriptor, (engine.address or "").encode())
        yield claim
        if not claim.left:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, engine: Engine) -> list[str]:
    """Remove what killed dlcs left on this engine; the names of what there was. What stays is no error of a new job."""
    removed: list[str] = []
    for path, descriptor in abandoned(folder):
        try:
            if path.read_text() == (engine.address or ""):
                removed += hosts.remove(engine, path.name, LEFTOVER_SECONDS)
                path.unlink()
        except DlcError as error:
            _warn(error, path.name)
        finally:
            os.close(descriptor)
    return removed


def _warn(error: DlcError, job_id: str) -> None:
    print(
        f"dlc: warning: left behind: {error.message}; the next job removes it, or: dlc run --remove {job_id}",
        file=sys.stderr,
    )


def remove_job(folder: Path, job_id: str, engine: Engine) -> list[str]:
    """Remove one job by its id, whoever started it. Raises DlcError where a dlc still looks after it."""
    with suppress(FileNotFoundError):
        descriptor = os.open(folder / job_id, os.O_RDWR)
        try:
            if not try_lock(descriptor):
                raise DlcError(f"{job_id}: a dlc still runs this job", "end that dlc: Ctrl-C")
            removed = hosts.remove(engine, job_id)
            (folder / job_id).unlink()
            return removed
        finally:
            os.close(descriptor)
    return hosts.remove(engine, job_id)


def abandoned(folder: Path) -> list[tuple[Path, int]]:
    """The files that nobody holds, with descriptors that hold them now."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return []
    found = []
    with exclusive(folder):
        for path in sorted(folder.iterdir()):
            descriptor = os.open(path, os.O_RDWR)
            if try_lock(descriptor):
                found.append((path, descriptor))
            else:
                os.close(descriptor)
    return found
