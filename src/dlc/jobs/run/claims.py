"""Which jobs on this machine a dlc still looks after: a locked file each. What a killed dlc left is removed.

The kernel unlocks a file when its process ends, however it ends. So a file that can be locked is of a job that nobody
looks after any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dlc.core.atomic_files import exclusive, try_lock, writing
from dlc.core.errors import DlcError
from dlc.engine.connection import Engine
from dlc.jobs.run import hosts

WAIT_SECONDS = 10.0  # for another dlc that looks at the folder


@contextmanager
def claimed(folder: Path, job_id: str, engine: Engine) -> Iterator[None]:
    """Look after a job in the block. The file goes when the block ends well, or with an error that left nothing."""
    path = folder / job_id
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), exclusive(folder, WAIT_SECONDS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try_lock(descriptor)
    try:
        os.write(descriptor, (engine.address or "").encode())
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, engine: Engine) -> list[str]:
    """Remove what killed dlcs left on this engine; the names of what there was."""
    removed: list[str] = []
    for path, descriptor in abandoned(folder):
        try:
            if path.read_text() == (engine.address or ""):
                removed += hosts.remove(engine, path.name)
                path.unlink()
        finally:
            os.close(descriptor)
    return removed


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
    with exclusive(folder, WAIT_SECONDS):
        for path in sorted(folder.iterdir()):
            descriptor = os.open(path, os.O_RDWR)
            if try_lock(descriptor):
                found.append((path, descriptor))
            else:
                os.close(descriptor)
    return found
