"""dlc ps, logs -f, exec and shell on a pseudo-terminal of 60 columns: what a person sees and types there.

Containers are processes here (stand_in_docker.py); tests/integration/test_run_detached.py has real ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlc.core.text import plain_text

BOUND_SECONDS = 300.0
LINES, COLUMNS = 24, 60
TRAIN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print('first', flush=True)
while not os.path.exists(os.environ['STAND_IN_DOCKER'] + '/go'): time.sleep(0.05)
print('second', flush=True)
while True: time.sleep(0.1)
"""


class Terminal:
    """A command on a terminal of its own, which Ctrl-C reaches as on a real one."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "dlc", *words], cwd=folder, env={**settings, "TERM": "xterm"},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read(self) -> bool:
        """Take what is shown; False at the end."""
        try:
            found = os.read(self.master, 65536)
        except OSError:  # nobody has the other side any more
            return False
        self.shown += found.decode(errors="replace")
        return bool(found)

    def until(self, pattern: str) -> None:
        deadline = time.monotonic() + BOUND_SECONDS
        while not re.search(pattern, self.shown):
            assert self.read(), self.shown
            assert time.monotonic() < deadline, self.shown

    def end(self) -> int:
        """Return the exit code, once all is shown."""
        while self.read():
            pass
        return self.child.wait(BOUND_SECONDS)


@contextmanager
def terminal(folder: Path, *words: str) -> Iterator[Terminal]:
    started = Terminal(folder, *words)
    try:
        yield started
    finally:
        started.child.kill()
        started.child.wait()
        os.close(started.master)


@pytest.fixture
def job(folder: Path) -> Iterator[Path]:
    """A folder with a job of two hosts in the background, which is called `mine`."""
    (folder / "train.py").write_text(TRAIN)
    words = ("run", "--hosts", "2", "--detach", "--name", "mine", "dlc/some:1", "train.py")
    assert dlc(folder, *words).returncode == 0
    yield folder
    dlc(folder, "stop", "mine")


def dlc(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlc", *words],
        cwd=folder, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip


def test_ps_fits_the_terminal_and_has_a_bold_head(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(job, "ps") as shown:
        assert shown.end() == 0
        lines = plain_text(shown.shown).splitlines()
        assert max(map(len, lines)) <= COLUMNS
        assert re.search(r"mine\s+runs\s+2 running\s+\d+ (s|min)\s+-\s+dlc/some:1", lines[1])
        assert shown.shown.startswith("\x1b[1mJOB ")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in dlc(job, "ps").stdout


def test_ctrl_c_ends_who_follows_the_lines_and_not_the_job(job: Path) -> None:
    with terminal(job, "logs", "mine", "-f") as follower:
        follower.until(r"\[algo-\d\] first")
        (job / "docker/go").touch()
        follower.until(r"\[algo-\d\] second")
        follower.type("\x03")
        assert follower.end() != 0
    [known] = json.loads(dlc(job, "ps", "--json").stdout)
    assert (known["state"], known["hosts"]) == ("runs", {"algo-1": "running", "algo-2": "running"})


def test_a_shell_in_a_host_takes_what_is_typed_and_hands_its_code_on(job: Path) -> None:
    with terminal(job, "exec", "mine", "algo-2", "sh") as shell:
        shell.type("pwd; echo it is $((40 + 2)); exit 7\n")
        assert shell.end() == 7
        assert f"{job}/dlc-jobs/mine/hosts/algo-2/code" in shell.shown
        assert "it is 42" in shell.shown


def test_a_shell_in_an_image_has_a_terminal_and_hands_its_code_on(folder: Path) -> None:
    with terminal(folder, "shell", "dlc/some:1", "sh") as shell:
        shell.type("test -t 0 && echo on a terminal; echo it is $((40 + 2)); exit 7\n")
        assert shell.end() == 7
        assert "on a terminal\r\n" in shell.shown
        assert "it is 42" in shell.shown


def test_a_job_that_is_watched_says_where_and_ctrl_c_ends_both(folder: Path) -> None:
    """TensorBoard is a container of the stand-in; test_run_watch.py has its other ways to end."""
    (folder / "train.py").write_text(TRAIN)
    with terminal(folder, "run", "--name", "mine", "--watch", "--grace", "60", "dlc/some:1", "train.py") as shown:
        shown.until(r"tensorboard of this job, until it ends: ")
        shown.until("first")
        assert "until it ends: http://127.0.0.1:32768/" in re.sub(r"\s+", " ", plain_text(shown.shown))
        shown.type("\x03")
        assert shown.end() == 130
    assert [path.name for path in (folder / "docker").iterdir()] == []
    assert json.loads(dlc(folder, "ps", "--json").stdout) == []


def test_an_error_is_red_on_a_terminal(folder: Path) -> None:
    with terminal(folder, "logs", "nobody") as shown:
        assert shown.end() == 2
        assert shown.shown.startswith("\x1b[31mdlc:\x1b[0m nobody: expected a job that runs, found none")
