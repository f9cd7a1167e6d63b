"""A test run that is stopped, by Ctrl-C or by SIGKILL, leaves no container, no network and no process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dlc.core.checkout import find_root
from dlc.core.labels import JOB
from harness.engine import HANG_BOUND, docker
from harness.images import Image
from harness.installed import TOOLS
from harness.reaper import END_SECONDS, LABEL, RUN_VARIABLE, processes

HANG_SECONDS = HANG_BOUND + END_SECONDS
TESTS = Path(__file__).with_name("held_hosts.py")
REAPER = re.compile(r"-m harness\.reaper (\w+)")

pytestmark = [
    pytest.mark.integration, pytest.mark.when(framework="pytorch"), pytest.mark.timeout(4 * HANG_SECONDS),
]  # fmt: skip


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not so after {HANG_SECONDS:g} s: {what}"
        time.sleep(0.2)


def number_of(run: subprocess.Popen[bytes]) -> str:
    """The number of a test run, from the command line of its reaper."""
    children = Path(f"/proc/{run.pid}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids]
    found = [match[1] for line in lines if (match := REAPER.search(line))]
    return found[0] if found else ""


def jobs(temporary: Path) -> list[str]:
    """The jobs of `dlc run` below a run's temporary folder."""
    return [path.name for path in temporary.glob("**/cache/jobs/*")]


def left(number: str, temporary: Path, of_dlc_run: list[str]) -> list[str]:
    """What there is of a run: processes, containers and networks."""
    filters = [f"label={LABEL}={number}", *(f"label={JOB}={job}" for job in of_dlc_run)]
    found = [line for line in processes(number, temporary).values() if "-m pytest" not in line]
    for each in filters:
        found += docker("ps", "--all", "--filter", each, "--format", "{{.Names}}").stdout.split()
        found += docker("network", "ls", "--filter", each, "--format", "{{.Name}}").stdout.split()
    return found


@pytest.mark.parametrize("signum", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_nothing(image: Image, tmp_path: Path, signum: signal.Signals) -> None:
    temporary = tmp_path / "nested"
    argv = [TOOLS / "python", "-m", "pytest", "-n", "2", f"--basetemp={temporary}", "-m", ""]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", RUN_VARIABLE))}
    with subprocess.Popen(
        [*argv, f"--image={image.variant.id}", str(TESTS)], cwd=find_root(), env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as run:  # fmt: skip
        try:
            wait_until(lambda: number_of(run) or run.poll() is not None, "the run has its reaper")
            number = number_of(run)
            wait_until(
                lambda: len([*temporary.glob("**/hosts-are-there")]) == 2 or run.poll() is not None,
                "both tests have hosts",
            )
            of_dlc_run = jobs(temporary)
            assert len(left(number, temporary, of_dlc_run)) >= 6
            assert run.poll() is None, "the run has ended by itself"
            run.send_signal(signum)
            run.wait(HANG_SECONDS)
        finally:
            run.kill()
    wait_until(lambda: not left(number, temporary, of_dlc_run), "nothing is left")
