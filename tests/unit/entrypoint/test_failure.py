"""failure: the file's first 1024 characters say it, the user's own file is kept, a full disk is no success."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from launch.base.outcome import Failure, Outcome
from launch.supervision import failure

FAILED = Failure(
    "worker rank 3 on algo-1 exited with code 1", "worker", 3, "algo-1", 1, "", ("Traceback", "ValueError: x")
)


def test_the_cause_comes_first_and_the_last_lines_follow(tmp_path: Path) -> None:
    path = tmp_path / "output" / "failure"
    assert failure.write(str(path), Outcome(1, FAILED))
    assert path.read_text() == "worker rank 3 on algo-1 exited with code 1\nTraceback\nValueError: x\n"


def test_a_success_writes_nothing(tmp_path: Path) -> None:
    assert not failure.write(str(tmp_path / "failure"), Outcome(0))
    assert not (tmp_path / "failure").exists()


def test_the_users_own_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("my own words")
    assert not failure.write(str(tmp_path / "failure"), Outcome(1, FAILED))
    assert (tmp_path / "failure").read_text() == "my own words"


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    (tmp_path / "failure").touch()
    assert failure.write(str(tmp_path / "failure"), Outcome(1, FAILED))


def test_a_place_that_cannot_be_written_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not failure.write(str(tmp_path / "file" / "failure"), Outcome(1, FAILED))


PLAIN = st.characters(exclude_categories=["Cc"], include_characters="\t", codec="utf-8")


@given(st.text(PLAIN), st.lists(st.text(PLAIN)), st.text(PLAIN, max_size=50))
def test_the_first_1024_characters_hold_cause_and_last_line(cause: str, lines: list[str], last: str) -> None:
    text = failure.report(Failure(cause, last_lines=(*lines, last)))
    reason = text[: failure.REASON_LENGTH]
    assert reason.startswith(cause[:512])
    assert f"\n{last}" in reason if last.strip("^~ ") else True  # marks below a line say nothing without it


def test_what_does_not_fit_the_reason_stands_after_it() -> None:
    lines = tuple(f"line {number}" for number in range(500))
    text = failure.report(Failure("c" * 700, last_lines=lines, details="stacks"))
    assert text[: failure.REASON_LENGTH].rstrip("\n").endswith("line 499")
    rest = text[failure.REASON_LENGTH :]
    assert "c" * 700 in rest
    assert "line 0\n" in rest
    assert rest.endswith("stacks\n")


def test_lone_surrogates_are_written_all_the_same(tmp_path: Path) -> None:
    assert failure.write(str(tmp_path / "failure"), Outcome(1, Failure("file \udcff is missing")))
    assert "\\udcff" in (tmp_path / "failure").read_text()


def test_control_characters_are_spelled_in_the_file_and_in_the_log(tmp_path: Path) -> None:
    failed = Failure("c\0", last_lines=("a\0b\tc", "\x1b[31mred\x7f"), details="one\r\ntwo")
    text = "a\\x00b\tc\n\\x1b[31mred\\x7f\n\none\\r\ntwo\n"
    assert failure.report(failed) == f"c\\x00\n{text}"
    assert "\0" not in failure.frame(failed)


def test_the_frame_names_the_cause_and_quotes_the_lines() -> None:
    text = failure.frame(FAILED)
    assert "dlc: worker rank 3 on algo-1 exited with code 1\n  | Traceback\n  | ValueError: x\n" in text


def test_room_on_the_disk_keeps_a_success(tmp_path: Path) -> None:
    assert failure.check_disk(Outcome(0), (str(tmp_path), str(tmp_path / "absent"))) == Outcome(0)
    assert list(tmp_path.iterdir()) == []
