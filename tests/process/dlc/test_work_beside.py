"""Work in a thread beside a block, and programs with a bound: what they run ends with them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dlc.core.errors import ProcessTimeoutError
from dlc.core.process import run_beside, run_program, stream_program

HANGS = ["sleep", "600"]
BOUND = 60.0  # seconds; only a hang takes that long


def test_the_result_of_the_work_is_there_when_the_block_asks() -> None:
    with run_beside(lambda: run_program(["printf", "made"]).stdout) as made:
        assert made.result(BOUND) == "made"


def test_an_error_of_the_work_is_raised_where_the_result_is_asked_for() -> None:
    def fail() -> None:
        raise ValueError("the mirror does not answer")

    with run_beside(fail) as made, pytest.raises(ValueError, match="the mirror does not answer"):
        made.result(BOUND)


def test_a_block_that_fails_ends_what_the_work_runs_and_waits_until_it_has_cleaned_up(tmp_path: Path) -> None:
    begun, draft = threading.Event(), tmp_path / "draft"

    def work() -> None:
        draft.touch()
        begun.set()
        try:
            run_program(HANGS)
        finally:
            draft.unlink()

    def interrupted() -> None:
        with run_beside(work):
            assert begun.wait(BOUND)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not draft.exists()


def test_a_stream_that_takes_too_long_is_ended_and_said_with_its_bound() -> None:
    with pytest.raises(ProcessTimeoutError, match=r"sleep 600: not finished after 0\.1 s"):
        stream_program(HANGS, lambda line: None, timeout=0.1)
