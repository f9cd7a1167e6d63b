"""`dlc test` counts the tests that end while it runs, and prints those that fail."""

from __future__ import annotations

from dlc.cli.test import Tally

# As pytest prints it with two workers and --verbose.
PRINTED = """\
created: 2/2 workers
scheduling tests via LoadFileScheduling

test_a.py::test_ok[1]\x20
[gw1] [ 20%] PASSED test_a.py::test_ok[1]\x20
test_a.py::test_ok[x y]\x20
[gw1] [ 60%] PASSED test_a.py::test_ok[x y]\x20
[gw1] [ 80%] SKIPPED test_a.py::test_skip\x20
[gw0] [100%] FAILED test_a.py::test_bad\x20

=================================== FAILURES ===================================
E   assert 0
==================== 1 failed, 3 passed, 1 skipped in 7.90s ====================
"""


def test_every_test_that_ends_is_counted_and_those_that_fail_are_printed() -> None:
    said: list[str] = []
    shown: list[str] = []
    tally = Tally(said.append, shown.append)
    for line in PRINTED.splitlines():
        tally.take(line)
    assert said[0] == "20 % of the tests: 1 passed"
    assert said[-1] == "100 % of the tests: 1 failed, 2 passed, 1 skipped"
    assert [line for line in shown if line] == [
        "created: 2/2 workers",
        "FAILED test_a.py::test_bad",
        *PRINTED.splitlines()[-3:],
    ]
