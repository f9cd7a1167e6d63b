"""build.display: a person at a terminal sees what runs; a pipe gets lines, and no reader that leaves ends a build."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from dlc.build.display import Display, Screen, open_display, row
from dlc.build.progress import Progress, Running, Step

# BuildKit's plain output of a real build: two steps at once, one of which it comes back to.
RECORDED = """\
#44 [pt compilers 1/2] RUN --mount=type=bind,from=scripts /scripts/os-packages/install.sh g++
#44 0.931 Reading package lists...
#44 ...

#45 [pt system 1/2] RUN /scripts/os-packages/install.sh openssh-server
#45 ...

#44 [pt compilers 1/2] RUN --mount=type=bind,from=scripts /scripts/os-packages/install.sh g++
#44 22.41 Processing triggers for libc-bin (2.36-9+deb12u14) ...
#44 DONE 22.6s
"""
REPLAY = """
import os, sys, time
from dlc.build.display import open_display
from dlc.build.progress import Progress
progress = Progress()
try:
    with open_display(plain=False, stream=sys.stderr, environment=os.environ) as display:
        for line in {recorded!r}.splitlines():
            if step := progress.feed(line):
                display.finished(step)
            display.running(tuple(progress.running.values()))
        print("said by another part", file=sys.stderr)
        time.sleep({seconds})
except KeyboardInterrupt:
    print("dlc: interrupted", file=sys.stderr)
"""
ESCAPE = "\x1b"
FINISHED = "    22.6 s  pt compilers 1/2  RUN /scripts/os-packages/install.sh g++"


class Terminal:
    """A pseudo-terminal with a replayed build as its foreground program."""

    def __init__(self, columns: int, seconds: float, **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        settings = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS")}
        settings |= {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[3] / "src"), **environment}
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

    def end(self) -> str:
        """All that was written until the program ended."""
        self.until("nothing like this")
        self.child.wait(60)
        os.close(self.master)
        return self.text


def counted(text: str) -> set[int]:
    """The seconds that were shown for the step that runs."""
    return {int(found) for found in re.findall(r"(\d+) s  (?:pt )?sy", text)}


def test_a_terminal_shows_the_running_step_with_its_seconds_counting() -> None:
    text = Terminal(columns=120, seconds=3.5).end()
    assert FINISHED in text
    assert "system 1/2  RUN /scripts/os-packages/install.sh openssh-server" in text
    assert len(counted(text)) >= 2
    assert "said by another part" in text
    assert f"{ESCAPE}[?25l" not in text.rpartition(f"{ESCAPE}[?25h")[2]  # a kill leaves a cursor


def test_a_running_step_fits_into_one_line_of_a_narrow_terminal() -> None:
    assert counted(Terminal(columns=20, seconds=2.5).end())


@pytest.mark.parametrize("width", [0, 1, 10, 20, 79, 80, 200])
def test_a_row_leaves_room_for_what_the_terminal_echoes(width: int) -> None:
    step = Running("pytorch-2_13-training-cpu-py311 horovod 1/1", "RUN /scripts/horovod/build.sh " + "x" * 300, 0.0)
    assert len(row(step, 195.0, width)) <= max(width - 2, 0)


def test_ctrl_c_leaves_a_screen_without_the_running_step() -> None:
    terminal = Terminal(columns=120, seconds=60)
    terminal.until(r"\d s  pt system")
    os.write(terminal.master, b"\x03")
    text = terminal.end()
    after = text[text.rindex("pt system") :]
    assert f"{ESCAPE}[2K" in after  # the row is erased,
    assert after.rstrip().endswith("dlc: interrupted")  # and what is said stands in its place
    assert terminal.child.returncode == 0


@pytest.mark.parametrize("variable", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"CI": "true"}])
def test_no_control_character_reaches_who_does_not_want_them(variable: dict[str, str]) -> None:
    text = Terminal(columns=120, seconds=0.1, **variable).end()
    assert ESCAPE not in text
    assert FINISHED in text


def test_a_pipe_and_json_get_plain_lines() -> None:
    assert type(open_display(plain=False, stream=io.StringIO(), environment={"TERM": "xterm"})) is Display
    assert type(open_display(plain=True, stream=sys.stderr, environment={"TERM": "xterm"})) is Display
    assert issubclass(Screen, Display)


def test_plain_lines_say_again_and_again_what_has_been_running_how_long() -> None:
    stream = io.StringIO()
    progress = Progress()
    for line in RECORDED.splitlines():
        progress.feed(line)
    with Display(stream, period=0.05) as display:
        display.running(tuple(progress.running.values()))
        deadline = time.monotonic() + 30
        while stream.getvalue().count("so far") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(re.fullmatch(r" +\d+ s so far  pt system 1/2  RUN /scripts/\S+ openssh-server", line) for line in lines)


def test_a_short_step_of_dlc_itself_is_not_worth_a_line() -> None:
    stream = io.StringIO()
    with Display(stream) as display, display.during("this host", "look"):
        pass
    assert stream.getvalue() == ""


def test_a_cached_step_a_short_copy_and_what_buildkit_does_for_itself_are_no_lines() -> None:
    stream = io.StringIO()
    with Display(stream) as display:
        display.finished(Step("pt launcher 1/3", "COPY . /opt", 0.0, cached=True))
        display.finished(Step("pt tools 2/4", "COPY finish /finish", 0.3, cached=False))
        display.finished(Step("internal", "load build definition", 1.0, cached=False))
    assert stream.getvalue() == ""


def test_a_reader_that_leaves_does_not_end_the_build() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream, Display(stream) as display:
        for _ in range(3):
            display.finished(Step("pt framework 1/1", "RUN x", 1.0, cached=False))
