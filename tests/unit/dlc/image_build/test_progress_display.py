"""display: a person at a terminal sees what runs; a pipe gets lines, and no reader that leaves ends a build."""

from __future__ import annotations

import io
import os
import re
import sys
import time

import pytest

from dlc.image_build.buildkit_log import Progress, Running, Step
from dlc.image_build.progress_display import Display, Screen, format_running, open_display
from harness.recorded_build import RECORDED


@pytest.mark.parametrize("width", [0, 1, 10, 20, 79, 80, 200])
def test_a_row_leaves_room_for_what_the_terminal_echoes(width: int) -> None:
    step = Running("pytorch-2_13-training-cpu-py311 horovod 1/1", "RUN /scripts/horovod/build.sh " + "x" * 300, 0.0)
    assert len(format_running(step, 195.0, width)) <= max(width - 2, 0)


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
