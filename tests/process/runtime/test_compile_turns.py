"""One of several processes does the work and the others wait for it, whatever becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.core
SOURCES = Path(__file__).parents[3] / "src"
HANGS = 60
WORK = textwrap.dedent("""
    import os, sys, time
    from dlc_runtime.compiler.cache.turn_lock import take_turn

    lock, done, longest = sys.argv[1], sys.argv[2], float(sys.argv[3])
    with take_turn(lock, longest) as is_held:
        found = os.path.exists(done)
        print("holds" if is_held else "waited", "found" if found else "nothing", flush=True)
        if is_held:
            sys.stdin.readline()
            open(done, "w").close()
""")


def start(tmp_path: Path, longest: float = HANGS) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORK, str(tmp_path / "lock"), str(tmp_path / "done"), str(longest)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_waiting(tmp_path: Path, longest: float = HANGS) -> subprocess.Popen[str]:
    """Return a process that has met the lock of another."""
    process = start(tmp_path, longest)
    lock, descriptors = str(tmp_path / "lock"), Path(f"/proc/{process.pid}/fd")
    end = time.monotonic() + HANGS
    while lock not in [str(each.resolve()) for each in descriptors.iterdir()]:
        assert time.monotonic() < end
        time.sleep(0.01)
    return process


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_others_wait_for_the_one_that_works_and_find_what_it_has_made(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first_line(first) == "holds nothing"
    others = [start_waiting(tmp_path) for _ in range(3)]
    first.communicate("\n", timeout=HANGS)
    assert [other.communicate(timeout=HANGS)[0].strip() for other in others] == ["waited found"] * 3
    assert not (tmp_path / "lock").exists()


def test_if_the_one_that_works_is_killed_the_others_go_on_at_once(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first_line(first) == "holds nothing"
    others = [start_waiting(tmp_path) for _ in range(3)]
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=HANGS)
    assert [other.communicate(timeout=HANGS)[0].strip() for other in others] == ["waited nothing"] * 3


def test_one_that_stands_still_is_not_waited_for_without_end(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first_line(first) == "holds nothing"
    first.send_signal(signal.SIGSTOP)
    try:
        out, err = start(tmp_path, longest=0.2).communicate(timeout=HANGS)
        assert out.strip() == "waited nothing"
        assert "this rank does not wait any longer" in err
    finally:
        first.kill()
        first.communicate(timeout=HANGS)


def test_a_folder_that_cannot_hold_a_lock_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    assert start(tmp_path).communicate(timeout=HANGS)[0].strip() == "waited nothing"
