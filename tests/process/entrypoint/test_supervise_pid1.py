"""supervise as PID 1 of a PID namespace, and below tini: as in a container, without one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from supervised import HANG_BOUND, SAVES, Run, start, wait_for

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
ORPHANS = """
import os, pathlib, time
for _ in range(5):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            pathlib.Path(f'orphan-{os.getpid()}').touch()
            time.sleep(600)
        os._exit(0)
    os.wait()
while len(list(pathlib.Path().glob('orphan-*'))) < 5: time.sleep(0.01)
"""


@pytest.fixture(params=["pid 1", "below tini"])
def below(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What to put before the launcher's command."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("making a PID namespace needs root")
    if request.param == "pid 1":
        return NAMESPACE
    if not shutil.which("tini"):
        pytest.skip("tini is not installed")
    return (*NAMESPACE, "tini", "--")


def stop_inside(running: Run) -> Run:
    """Send SIGTERM to PID 1 of the namespace, as `docker stop` does."""
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    return running.finish()


def test_a_stop_request_is_passed_on_and_the_exit_code_kept(tmp_path: Path, below: tuple[str, ...]) -> None:
    running = start(tmp_path, SAVES, below=below)
    wait_for(tmp_path / "ready")
    assert stop_inside(running).exit_code == 0
    assert (tmp_path / "saved").exists()


def test_orphans_of_other_sessions_do_not_outlive_the_run(tmp_path: Path, below: tuple[str, ...]) -> None:
    started = time.monotonic()
    done = start(tmp_path, ORPHANS, below=below).finish()
    assert done.exit_code == 0
    assert len(list(tmp_path.glob("orphan-*"))) == 5
    assert time.monotonic() - started < HANG_BOUND
    assert b"still running" not in done.stderr


def test_a_failure_is_told_from_inside(tmp_path: Path, below: tuple[str, ...]) -> None:
    done = start(tmp_path, "import os; os.kill(os.getpid(), 11)", below=below).finish()
    assert done.exit_code == 128 + signal.SIGSEGV
    assert done.failure["signal"] == "SIGSEGV"
