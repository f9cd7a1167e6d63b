"""core.process: output kept, failures typed, no child left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from dlc.core.errors import ProcessError
from dlc.core.process import run, stream, tail


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether a process ends within `seconds`; a zombie counts as gone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_output_and_exit_code_are_kept() -> None:
    done = run(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"], check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_failure_names_command_code_and_last_lines() -> None:
    with pytest.raises(ProcessError, match=r"exit code 5\nwhy it failed"):
        run(
            [
                sys.executable,
                "-c",
                "import sys; print('why it failed'); sys.exit(5)",
            ]
        )


def test_missing_program_is_a_typed_error_with_a_remedy() -> None:
    with pytest.raises(ProcessError, match="no-such-program: no such program") as caught:
        run(["no-such-program"])
    assert "PATH" in caught.value.remedy


def test_program_without_an_end_is_killed_at_its_bound() -> None:
    with pytest.raises(ProcessError, match=r"no end within 0\.2 s"):
        run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2)


def test_environment_is_added_to_the_callers() -> None:
    done = run(
        [sys.executable, "-c", "import os; print(os.environ['ADDED'], 'PATH' in os.environ)"], env={"ADDED": "x"}
    )
    assert done.stdout == "x True\n"


def test_stream_hands_over_each_line_and_takes_stdin() -> None:
    lines: list[str] = []
    code = stream(
        [sys.executable, "-c", "import sys; print(sys.stdin.read()); print('b'); sys.exit(4)"], lines.append, stdin="a"
    )
    assert (code, lines) == (4, ["a", "b"])


def test_interrupted_stream_ends_the_whole_process_group(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time; sleep = 'import time; time.sleep(120)';"
        "print(subprocess.Popen([sys.executable, '-c', sleep]).pid, flush=True); time.sleep(120)"
    )
    seen: list[int] = []

    def on_line(line: str) -> None:
        seen.append(int(line))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        stream([sys.executable, "-c", script], on_line)
    assert gone(seen[0])


def test_tail_keeps_the_end() -> None:
    assert tail("1\n2\n3\n", 2) == "2\n3"
