"""failure_report: the file's first 1024 characters say it, the user's own file is kept, a full disk is no success."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.base.errors import Failure, Outcome
from launch.supervision import failure_report
from launch.supervision.failure_cause import with_early_ends
from launch.supervision.rank_files import RankEnd

FAILED = Failure(
    "worker rank 3 on algo-1 exited with code 1", "worker", 3, "algo-1", 1, "", ("Traceback", "ValueError: x")
)


def test_the_cause_comes_first_and_the_last_lines_follow(tmp_path: Path) -> None:
    path = tmp_path / "output" / "failure"
    assert failure_report.write_file(str(path), Outcome(1, FAILED))
    assert path.read_text() == "worker rank 3 on algo-1 exited with code 1\nTraceback\nValueError: x\n"


def test_a_success_writes_nothing(tmp_path: Path) -> None:
    assert not failure_report.write_file(str(tmp_path / "failure"), Outcome(0))
    assert not (tmp_path / "failure").exists()


def test_the_users_own_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("my own words")
    assert not failure_report.write_file(str(tmp_path / "failure"), Outcome(1, FAILED))
    assert (tmp_path / "failure").read_text() == "my own words"


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    (tmp_path / "failure").touch()
    assert failure_report.write_file(str(tmp_path / "failure"), Outcome(1, FAILED))


def test_a_place_that_cannot_be_written_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not failure_report.write_file(str(tmp_path / "file" / "failure"), Outcome(1, FAILED))


PLAIN = st.characters(exclude_categories=["Cc"], include_characters="\t", codec="utf-8")


@given(st.text(PLAIN), st.lists(st.text(PLAIN)), st.text(PLAIN, max_size=50))
def test_the_first_1024_characters_hold_cause_and_last_line(cause: str, lines: list[str], last: str) -> None:
    text = failure_report.as_file_text(Failure(cause, last_lines=(*lines, last)))
    reason = text[: failure_report.REASON_LENGTH]
    assert reason.startswith(cause[:512])
    assert f"\n{last}" in reason if last.strip("^~ ") else True  # marks below a line say nothing without it


def test_what_does_not_fit_the_reason_stands_after_it() -> None:
    lines = tuple(f"line {number}" for number in range(500))
    text = failure_report.as_file_text(Failure("c" * 700, last_lines=lines, details="stacks"))
    assert text[: failure_report.REASON_LENGTH].rstrip("\n").endswith("line 499")
    rest = text[failure_report.REASON_LENGTH :]
    assert "c" * 700 in rest
    assert "line 0\n" in rest
    assert rest.endswith("stacks\n")


def test_lone_surrogates_are_written_all_the_same(tmp_path: Path) -> None:
    assert failure_report.write_file(str(tmp_path / "failure"), Outcome(1, Failure("file \udcff is missing")))
    assert "\\udcff" in (tmp_path / "failure").read_text()


def test_control_characters_are_spelled_in_the_file_and_in_the_log(tmp_path: Path) -> None:
    failed = Failure("c\0", last_lines=("a\0b\tc", "\x1b[31mred\x7f"), details="one\r\ntwo")
    text = "a\\x00b\tc\n\\x1b[31mred\\x7f\n\none\\r\ntwo\n"
    assert failure_report.as_file_text(failed) == f"c\\x00\n{text}"
    assert "\0" not in failure_report.as_frame(failed)


def test_the_frame_names_the_cause_and_quotes_the_lines() -> None:
    text = failure_report.as_frame(FAILED)
    assert "dlc: worker rank 3 on algo-1 exited with code 1\n  | Traceback\n  | ValueError: x\n" in text


def test_room_on_the_disk_keeps_a_success(tmp_path: Path) -> None:
    assert failure_report.check_disk(Outcome(0), (str(tmp_path), str(tmp_path / "absent"))) == Outcome(0)
    assert list(tmp_path.iterdir()) == []


def test_the_frame_ends_with_the_error_also_where_the_lines_stand_above() -> None:
    error = ('  File "/opt/ml/code/train.py", line 3, in main', "ValueError: x")
    assert "exited with code 1\n  |   File" in failure_report.as_frame(FAILED._replace(error=error), with_lines=False)
    lines = ("Traceback (most recent call last):", '  File "/opt/ml/code/train.py", line 3, in main', "ValueError: y")
    text = failure_report.as_frame(FAILED._replace(last_lines=lines), with_lines=False)
    assert "  | ValueError: y\n---" in text
    assert "Traceback" not in text
    assert "  | and gone\n---" in failure_report.as_frame(
        FAILED._replace(last_lines=("hm", "and gone")), with_lines=False
    )


def test_the_error_is_found_also_where_pytorch_says_which_rank_it_is_of() -> None:
    lines = (
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/opt/ml/code/train.py", line 4, in <module>',
        '[rank1]:     raise ValueError("no data")',
        "[rank1]: ValueError: no data",
    )
    text = failure_report.as_frame(FAILED._replace(last_lines=lines), with_lines=False)
    assert '|     raise ValueError("no data")\n  | ValueError: no data\n---' in text


def test_no_line_is_cut_at_its_beginning() -> None:
    lines = tuple(f"{number:04d}{'x' * 50}" for number in range(100))
    for head in range(30, 60):
        shown = failure_report.as_file_text(Failure("c" * head, last_lines=lines))[
            : failure_report.REASON_LENGTH
        ].splitlines()[1:]
        assert [line for line in shown if line and line not in lines] == []


def test_ranks_that_had_ended_with_0_before_the_failure_are_named() -> None:
    ranks = [RankEnd(str(number), "algo-1", 0, code) for number, code in ((2, 0), (0, 0), (3, 1), (1, 0))]
    named = with_early_ends(FAILED, ranks, ())
    assert named.cause.endswith("exited with code 1; before that worker rank 2, worker rank 0 had ended with code 0")
    assert with_early_ends(FAILED, ranks[2:], ()) is FAILED
    assert "before that worker rank 1 had" in with_early_ends(FAILED, (), ["worker rank 1"]).cause
    many = with_early_ends(FAILED, (), [f"rank {number}" for number in range(100)])
    assert "rank 3 and 96 more had ended" in many.cause


def test_the_reserved_room_has_no_name_until_there_is_a_failure(tmp_path: Path) -> None:
    """A launcher that is killed leaves nothing."""
    path = tmp_path / "output/failure"
    failure_report.reserve_file(str(path))
    assert list(path.parent.iterdir()) == []
    assert not failure_report.write_file(str(path), Outcome(0))
    assert list(path.parent.iterdir()) == []
    failure_report.reserve_file(str(path))
    (path.parent / ".dlc-failure").write_text("of an older launcher")
    path.touch()
    assert failure_report.write_file(str(path), Outcome(1, FAILED))
    assert [each.name for each in path.parent.iterdir()] == ["failure"]
    assert path.read_text() == failure_report.as_file_text(FAILED)


def test_a_file_system_without_files_that_have_no_name_gets_one_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "failure"
    # A flag that no file system knows: a folder cannot be opened for writing.
    monkeypatch.setattr(os, "O_TMPFILE", 0)
    failure_report.reserve_file(str(path))
    assert [each.name for each in tmp_path.iterdir()] == [".dlc-failure"]
    assert failure_report.write_file(str(path), Outcome(1, FAILED))
    assert [each.name for each in tmp_path.iterdir()] == ["failure"]
