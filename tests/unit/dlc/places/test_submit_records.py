"""What this machine remembers of the jobs that it handed to a place, for dlc logs, dlc stop and dlc clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlc.places.records import Record, find_record, list_open_folders, note_end, read_records, write_record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    return tmp_path / "submitted"


def add(name: str, at: int, **changes: Any) -> Record:
    facts = {"place": "slurm", "id": "7", "folder": f"/jobs/{name}", "options": {"partition": "gpu"}}
    record = Record(**{**facts, "name": name, "submitted": f"2026-11-28T10:00:{at:02}+00:00", **changes})
    write_record(record)
    return record


def test_records_are_read_as_they_were_written_and_the_newest_is_last() -> None:
    newer, older = add("a", 9), add("b", 1)
    assert read_records() == [older, newer]


def test_without_a_job_there_is_no_record() -> None:
    assert (read_records(), find_record("a")) == ([], None)


def test_a_job_of_the_same_name_replaces_the_older_one() -> None:
    add("a", 1)
    newer = add("a", 2, id="8")
    assert read_records() == [newer]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"name": "x"}', '{"name": "x", "since": "of a newer dlc"}'])
def test_what_is_no_record_is_passed_over(folder: Path, text: str) -> None:
    kept = add("a", 1)
    (folder / "b.json").write_text(text)
    assert read_records() == [kept]


def test_a_job_is_found_by_its_name_before_the_id_of_another() -> None:
    named = add("7", 1, id="70")
    other = add("b", 2, id="7")
    assert find_record("7") == named
    assert find_record("b") == other
    assert find_record("71") is None


def test_of_jobs_with_one_id_the_newest_is_meant_and_only_of_the_place_that_is_asked_for() -> None:
    """Slurm begins to count anew some day, and two places may call a job the same."""
    older, newest = add("a", 1), add("b", 2, place="kubernetes")
    assert find_record("7") == newest
    assert find_record("7", "slurm") == find_record("a", "slurm") == older
    assert find_record("a", "kubernetes") is None


def test_a_folder_is_open_until_somebody_has_seen_its_job_end() -> None:
    add("a", 1)
    add("b", 2)
    note_end("a")
    note_end("not a job of this machine")
    assert list_open_folders() == {"/jobs/b"}
    assert [(record.name, record.has_ended) for record in read_records()] == [("a", True), ("b", False)]
