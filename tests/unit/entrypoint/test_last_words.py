"""The last word of a failure: recorded crashes, exception groups, and ranks whose collectives do not match."""

from __future__ import annotations

from typing import Any

import pytest

from launch.base.errors import Failure
from launch.supervision.failure_cause import error_lines, is_consequence, root_cause, user_frames
from launch.supervision.failure_report import as_file_text, as_frame
from launch.supervision.rank_files import RankEnd

MODULES = "Extension modules: numpy._core._multiarray_umath, numpy.linalg._umath_linalg, torch._C (total: 3)"
SEGFAULT = f"""\
loading
Fatal Python error: Segmentation fault

Thread 0x00007fdf7467c2c1 (most recent call first):
  File "/opt/ml/code/loader.py", line 3 in fill
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007fdf7467c2c0 (most recent call first):
  File "/opt/venv/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/opt/ml/code/train.py", line 14 in step
  File "/opt/ml/code/train.py", line 20 in <module>

{MODULES}
"""
# PyTorch 2.13, gloo: rank 0 ran an all_reduce that rank 1 left out
MISMATCH = f"""\
terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 100000 vs 8. Received \
data size doesn't match expected size. Is there a distributed collective mismatch in your code?
Fatal Python error: Aborted

Thread 0x00007fdf7467c2c0 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/opt/ml/code/train.py", line 5 in sync
  File "/opt/ml/code/train.py", line 10 in <module>

{MODULES}
"""
LOST = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/ml/code/train.py", line 9, in <module>
[rank0]:     if rank == 0: sync(100000)
[rank0]:                   ^^^^^^^^^^^^
[rank0]:   File "/opt/ml/code/train.py", line 5, in sync
[rank0]:     dist.all_reduce(torch.ones(n))
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [10.0.0.3]:24253: Connection reset by peer
"""
GROUP = """\
[rank0]:   + Exception Group Traceback (most recent call last):
[rank0]:   |   File "/opt/ml/code/train.py", line 20, in <module>
[rank0]:   |     raise ExceptionGroup("two things", [ValueError("the first"), KeyError("second")])
[rank0]:   | ExceptionGroup: two things (2 sub-exceptions)
[rank0]:   +-+---------------- 1 ----------------
[rank0]:     | Traceback (most recent call last):
[rank0]:     |   File "/opt/ml/code/work.py", line 3, in load
[rank0]:     |     raise ValueError("the first")
[rank0]:     | ValueError: the first
[rank0]:     +---------------- 2 ----------------
[rank0]:     | KeyError: 'second'
[rank0]:     +------------------------------------
"""
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line 1, in <module>\nValueError: late\n'
)


def lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def test_a_segmentation_fault_is_told_by_the_users_frame_of_the_thread_that_had_it() -> None:
    told = error_lines(lines(SEGFAULT))
    assert told == ('  File "/opt/ml/code/train.py", line 14 in step', "Fatal Python error: Segmentation fault")


def test_an_abort_by_cpp_is_told_by_what_it_threw() -> None:
    frame, error = error_lines(lines(MISMATCH))
    assert frame == '  File "/opt/ml/code/train.py", line 5 in sync'
    assert error.startswith("what():  [enforce fail")
    assert "100000 vs 8" in error


def test_a_crash_without_a_frame_of_the_user_is_told_too() -> None:
    text = "Fatal Python error: Bus error\n\nCurrent thread 0x07 (most recent call first):\n  <no Python frame>\n"
    assert error_lines(lines(text)) == ("Fatal Python error: Bus error",)


def test_a_traceback_after_a_crash_of_another_process_is_the_last_word() -> None:
    assert error_lines(lines(SEGFAULT + TRACEBACK))[-1] == "ValueError: late"
    assert error_lines(lines(TRACEBACK + SEGFAULT))[-1] == "Fatal Python error: Segmentation fault"


def test_an_exception_group_is_told_by_its_errors() -> None:
    told = error_lines(lines(GROUP))
    assert told[-3:] == ("ExceptionGroup: two things (2 sub-exceptions)", "ValueError: the first", "KeyError: 'second'")
    assert told[0] == '  File "/opt/ml/code/work.py", line 3, in load'


def test_a_traceback_after_an_exception_group_is_the_last_word() -> None:
    assert error_lines(lines(GROUP + TRACEBACK))[-1] == "ValueError: late"


@pytest.mark.parametrize("text", [SEGFAULT, MISMATCH, GROUP])
def test_no_report_ends_with_words_that_say_nothing(text: str) -> None:
    failure = Failure("worker rank 0 on algo-1 failed", last_lines=lines(text), error=error_lines(lines(text)))
    frame = as_frame(failure, with_lines=False)
    assert "Extension modules" not in frame
    assert "-+-" not in frame
    assert error_lines(lines(text))[-1] in as_file_text(failure)[:1024]


def test_frames_are_listed_outermost_first_in_tracebacks_and_crashes() -> None:
    assert user_frames(lines(LOST)) == ["/opt/ml/code/train.py:9", "/opt/ml/code/train.py:5"]
    assert user_frames(lines(MISMATCH)) == ["/opt/ml/code/train.py:10", "/opt/ml/code/train.py:5"]
    assert user_frames(("no traceback",)) == []


def test_a_cpp_error_that_only_says_that_a_peer_has_gone_is_a_consequence() -> None:
    assert is_consequence(("terminate called", "  what():  Connection closed by peer [10.0.0.3]:1"))


def rank(number: int, text: str, code: int) -> RankEnd:
    return RankEnd(str(number), "algo-1", 10 + number, code, lines(text), error_lines(lines(text)))


def failed_first(number: int, code: int) -> str:
    return (
        "Root Cause (first observed failure): [0]: time : x host : y "
        f"rank : {number} (local_rank: {number}) exitcode : {code} (pid: 13)"
    )


@pytest.mark.parametrize(("first", "code"), [(1, -6), (0, 1)])
def test_no_rank_is_blamed_alone_if_the_ranks_ran_different_collectives(first: int, code: int) -> None:
    ranks = [rank(0, LOST, 1), rank(1, MISMATCH, -6)]
    output = "".join(f"[algo-1:{end.rank}] {line}\n" for end in ranks for line in end.last_lines) + failed_first(
        first, code
    )
    failure = root_cause(Failure("torchrun on algo-1 exited with code 1", "torchrun", 0, "algo-1"), output, ranks)
    assert "different collectives" in failure.cause
    assert "may be the healthy one" in failure.cause
    assert "rank 0 in /opt/ml/code/train.py:9, rank 1 in /opt/ml/code/train.py:10" in failure.cause
    assert "collective mismatch" in failure.error[-1]


def test_other_failures_are_blamed_on_their_rank_as_ever() -> None:
    ranks: list[Any] = [rank(0, TRACEBACK, 1), rank(1, LOST, 1)]
    failure = root_cause(Failure("torchrun on algo-1 exited with code 1", "torchrun"), failed_first(0, 1), ranks)
    assert "collectives" not in failure.cause
