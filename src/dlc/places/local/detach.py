"""Runs a job in the background: a dlc in a session of its own does all that the one on a terminal would do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from dlc.core.atomic_files import report_disk_errors
from dlc.core.errors import DlcError
from dlc.core.process import start_daemon
from dlc.places.local.job import Job
from dlc.places.local.job_folder import remove_folders
from dlc.places.local.known_jobs import ASK_AGAIN_SECONDS, LOG


def start_in_background(
    words: Sequence[str],
    job: Job,
    claims_folder: Path,
    files: Mapping[Path, str] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Start `dlc WORDS`, which runs this job, with its lines in the job's folder; return when it looks after the job.

    `files` are written to that folder first, `env` is added to the environment.

    Return 0 then. If it ends before that, its lines are printed on stderr, nothing of it is left, and its exit code is
    returned.
    """
    log = job.folder / LOG
    if log.exists() or (job.folder / "hosts").exists():
        raise DlcError(
            f"{job.folder}: expected a folder without the results of another job, found some", "name another folder"
        )
    with report_disk_errors(job.folder):
        job.folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text)
        child = start_daemon([sys.executable, "-P", "-m", "dlc", *words], log, env)
    try:
        code = _wait_until_claimed(child.poll, claims_folder / job.id)
    except BaseException:
        # Ctrl-C: it ends as on a terminal.
        child.terminate()
        child.wait()
        raise
    if code is None:
        return 0
    print(log.read_text(errors="replace"), end="", file=sys.stderr)
    if code and not (job.folder / "hosts").exists():
        for path in (log, *files):
            path.unlink()
        remove_folders(job)
    return code


def _wait_until_claimed(poll: Callable[[], int | None], claim: Path) -> int | None:
    """Return None when the job is looked after, the exit code of who should do it if that one has ended."""
    while (code := poll()) is None:
        if claim.exists():
            return None
        time.sleep(ASK_AGAIN_SECONDS)
    return code
