"""image_build.display on a pseudo-terminal: the running step, an interrupt, and who wants no control characters."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pytest

from harness.recorded_build import RECORDED

REPLAY = """
import os, sys, time
from dlc.image_build.progress_display import open_display
from dlc.image_build.buildkit_log import Progress
progress = Progress()
try:
    with open_display(plain=False, stream=sys.stderr, environment=os.environ) as display:
        for number, line in enumerate({recorded!r}.splitlines()):
            # The build began so long ago as its first step took.
            if step := progress.feed(line, time.monotonic() - 23 * (number == 0)):
                display.finished(step)
            display.running(tuple(progress.running.values()))
        print("said by another part", file=sys.stderr)
        time.sleep({seconds})
except KeyboardInterrupt:
    print("dlc: interrupted", file=sys.stderr)
"""
ESCAPE = "\x1b"
RUNNING = r"(\d+) s  (?:pt )?sy"  # the step that runs, with its seconds
FINISHED = "    22.6 s  pt compilers 1/2  RUN /scripts/os-packages/install.sh g++"


class Terminal:
    """A pseudo-terminal with a replayed build as its foreground program."""

    def __init__(self, columns: int, seconds: float, **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        settings = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS")}
        settings |= {"TERM": "xterm", **environment}
        code = REPLAY.format(recorded=RECORDED, seconds=seconds)
        setup = "import os, fcntl, termios; os.setsid(); fcntl.ioctl(2, termios.TIOCSCTTY, 0)\n"
        self.child = subprocess.Popen(
            [sys.executable, "-c", setup + code], stdin=slave, stdout=slave, stderr=slave, env=settings
        )
        os.close(slave)
        self.text = ""

    def until(self, pattern: str) -> str:
        """All that was written when `pattern` has been seen, or when the program has ended."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.text) and time.monotonic() < deadline:
            try:
                self.text += os.read(self.master, 65536).decode()
            except OSError:  # the other side is closed
                break
        return self.text

    def interrupted(self) -> str:
        """All that was written until the program ended, to which somebody types Ctrl-C now."""
        os.write(self.master, b"\x03")
        return self.end()

    def end(self) -> str:
        """All that was written until the program ended."""
        self.until("nothing like this")
        self.child.wait(60)
        os.close(self.master)
        return self.text


def counted(text: str) -> set[int]:
    """The seconds that were shown for the step that runs."""
    return {int(found) for found in re.findall(RUNNING, text)}


def test_a_terminal_shows_the_running_step_with_its_seconds_counting() -> None:
    terminal = Terminal(columns=120, seconds=600)
    terminal.until(rf"(?s){RUNNING}.*(?!\1){RUNNING}")
    text = terminal.interrupted()
    assert FINISHED in text
    assert "system 1/2  RUN /scripts/os-packages/install.sh openssh-server" in text
    assert len(counted(text)) >= 2
    assert "said by another part" in text
    assert f"{ESCAPE}[?25l" not in text.rpartition(f"{ESCAPE}[?25h")[2]  # a kill leaves a cursor


def test_a_running_step_fits_into_one_line_of_a_narrow_terminal() -> None:
    terminal = Terminal(columns=20, seconds=600)
    terminal.until(RUNNING)
    assert counted(terminal.interrupted())


def test_ctrl_c_leaves_a_screen_without_the_running_step() -> None:
    terminal = Terminal(columns=120, seconds=600)
    terminal.until(r"\d s  pt system")
    text = terminal.interrupted()
    after = text[text.rindex("pt system") :]
    assert f"{ESCAPE}[2K" in after  # the row is erased,
    assert after.rstrip().endswith("dlc: interrupted")  # and what is said stands in its place
    assert terminal.child.returncode == 0


@pytest.mark.parametrize("variable", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"CI": "true"}])
def test_no_control_character_reaches_who_does_not_want_them(variable: dict[str, str]) -> None:
    text = Terminal(columns=120, seconds=0.1, **variable).end()
    assert ESCAPE not in text
    assert FINISHED in text
