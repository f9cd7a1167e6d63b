"""core.atomic_files between processes: one waits for the other, and what a killed one left goes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dlc.core.atomic_files import draft_folder, hold_lock
from dlc.core.errors import ProcessError

HOLD = """
import sys, time
from pathlib import Path
from dlc.core.{module} import {function}
with {function}(Path(sys.argv[1]){more}) as draft:
    if draft:
        (draft / "half").write_text("half")
    print("held", flush=True)
    time.sleep(600)
"""


def holder(path: Path, module: str, function: str, more: str = "") -> subprocess.Popen[str]:
    """Another process that is inside the block."""
    code = HOLD.format(module=module, function=function, more=more)
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    assert child.stdout.readline() == "held\n"
    return child


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_what_a_killed_process_left_goes_with_the_next_draft_and_a_living_ones_stays(tmp_path: Path) -> None:
    killed, living = (holder(tmp_path, "atomic_files", "draft_folder") for _ in range(2))
    try:
        kill(killed)
        assert len(list((tmp_path / "drafts").iterdir())) == 2
        with draft_folder(tmp_path) as mine:
            others = [path for path in (tmp_path / "drafts").iterdir() if path != mine]
            assert len(others) == 1
            assert (others[0] / "half").read_text() == "half"
    finally:
        kill(living)


def test_a_second_process_waits_within_its_bound_and_is_let_in_when_the_first_is_killed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "lock"
    first = holder(lock, "atomic_files", "hold_lock", ", 1.0")
    try:
        with pytest.raises(ProcessError, match=f"{lock}: another dlc has held this lock"), hold_lock(lock, 0.3):
            pytest.fail("two are inside")
        assert f"waiting for another dlc: {lock}" in capfd.readouterr().err
    finally:
        kill(first)
    with hold_lock(lock, 0.3):
        assert lock.exists()
