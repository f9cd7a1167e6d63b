"""image_build.buildkit_log: BuildKit's plain output as steps and as the cause of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.errors import BaseImageError, BuildError, DiskError, DlcError
from dlc.image_build.buildkit_log import Progress, error_of

# As buildx 0.13 prints it.
GOOD = """\
#1 [internal] load build definition from Dockerfile
#1 DONE 0.0s
#7 [pt framework 1/2] RUN --mount=type=bind,from=scripts /scripts/install.sh
#7 0.287 Using Python 3.11.2
#7 DONE 26.8s
#8 [pt launcher 1/3] COPY --from=entrypoint . /opt
#8 CACHED
"""
BAD = """\
#7 [pt system 1/2] RUN /scripts/os-packages/install.sh nope
#7 1.0 Reading package lists...
#7 1.2 E: Unable to locate package nope
#7 ERROR: process "/bin/sh -c /scripts/os-packages/install.sh nope" did not complete successfully: exit code: 100
------
 > [pt system 1/2] RUN /scripts/os-packages/install.sh nope:
------
ERROR: failed to solve: process did not complete successfully: exit code: 100
"""
NO_BASE = """\
#3 [internal] load metadata for docker.io/library/nothere:1
#3 ERROR: failed to do request: Head "https://registry/v2/nothere": no such host
ERROR: failed to solve: nothere:1: failed to resolve source metadata for docker.io/library/nothere:1
"""


def read(text: str) -> Progress:
    progress = Progress()
    for line in text.splitlines():
        progress.feed(line)
    return progress


def test_steps_carry_name_seconds_and_whether_they_were_cached() -> None:
    steps = read(GOOD).steps
    assert [(s.name, s.seconds, s.cached) for s in steps] == [
        ("internal", 0.0, False),
        ("pt framework 1/2", 26.8, False),
        ("pt launcher 1/3", 0.0, True),
    ]


def test_failure_is_the_step_that_failed_with_its_own_last_lines() -> None:
    assert read(BAD).failure() == (
        "pt system 1/2",
        "RUN /scripts/os-packages/install.sh nope",
        "Reading package lists...\nE: Unable to locate package nope",
    )


def test_a_step_runs_from_its_heading_until_it_is_done_cached_canceled_or_failed() -> None:
    heading = "#7 [pt framework 1/2] RUN install"
    assert [step.name for step in read(heading).running.values()] == ["pt framework 1/2"]
    for end in ("DONE 26.8s", "CACHED", "CANCELED", "ERROR: exit code: 1"):
        assert not read(f"{heading}\n#7 {end}").running


def test_a_step_that_buildkit_comes_back_to_keeps_its_start() -> None:
    progress = Progress()
    progress.feed("#7 [pt framework 1/2] RUN install", 100.0)
    progress.feed("#7 ...", 105.0)
    progress.feed("#7 [pt framework 1/2] RUN install", 160.0)
    assert progress.running["7"].started == 100.0


def test_a_step_whose_heading_came_late_counts_from_the_time_that_it_prints_itself() -> None:
    progress = Progress()
    progress.feed("#3 [pt system 1/1] RUN install", 100.0)
    progress.feed("#7 [pt horovod 1/1] RUN install", 160.0)
    progress.feed("#7 55.5 compiling", 160.5)
    progress.feed("#7 56.5 compiling", 162.0)
    assert progress.running["7"].started == 105.0


# What buildx 0.13 printed of a build that began 13 s after another one with the same steps; the last one is its own.
BESIDE = """\
0.01 #1 [internal] load build definition from Dockerfile
0.01 #1 DONE 0.1s
0.19 #4 [a 1/4] FROM docker.io/dlc/pytorch:2.13-training-cpu-py311
0.20 #4 CACHED
0.20 #5 [a 2/4] RUN echo one; sleep 2
0.21 #5 0.247 one
0.24 #5 DONE 2.4s
0.25 #6 [a 3/4] RUN echo two; sleep 8
0.25 #6 0.219 two
0.25 #6 DONE 8.3s
0.26 #7 [a 4/4] RUN echo three; sleep 14
2.10 #7 4.227 three
12.06 #7 DONE 14.3s
12.21 #8 [b 1/1] RUN echo own; sleep 3
12.40 #8 0.331 own
15.62 #8 DONE 3.5s
"""


def test_steps_that_another_build_had_begun_are_told_from_those_of_this_build() -> None:
    progress, shown = Progress(), []
    for line in BESIDE.splitlines():
        seconds, _, text = line.partition(" ")
        progress.feed(text, 1000 + float(seconds))
        shown += [step.command for step in progress.running.values() if "three" in step.command]
    assert [(step.name, step.elsewhere) for step in progress.steps] == [
        ("internal", False), ("a 1/4", False), ("a 2/4", True), ("a 3/4", True), ("a 4/4", True), ("b 1/1", False),
    ]  # fmt: skip
    assert shown == ["RUN echo three; sleep 14", "another build runs: RUN echo three; sleep 14"]


def test_what_another_build_has_done_counts_no_seconds_of_this_one() -> None:
    progress = Progress()
    for line in BESIDE.splitlines()[:12]:
        seconds, _, text = line.partition(" ")
        progress.feed(text, 1000 + float(seconds))
    assert progress.running["7"].started == pytest.approx(1000.19)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (BAD, BuildError),
        (BAD.replace("Unable to locate package nope", "write /var/x: no space left on device"), DiskError),
        (BAD.replace("E: Unable to locate", "the base image's Python is 3.12, wanted"), BaseImageError),
        (NO_BASE, BaseImageError),
    ],
)  # fmt: skip
def test_each_cause_has_an_error_of_its_own_that_names_the_log(text: str, error: type[DlcError]) -> None:
    raised = error_of(read(text), Path("build.log"))
    assert type(raised) is error
    assert "log: build.log" in raised.message
