"""What a job chose is kept for the next one: found by what it depends on, and never an error."""

from __future__ import annotations

from pathlib import Path

from dlc_runtime.compiler.choosing.decisions import decision_path, read_decision, write_decision


def test_a_decision_is_found_by_the_next_job_with_the_same_facts_and_by_no_other(tmp_path: Path) -> None:
    facts = {"modules": ["Net 12ab"], "batches": [["(4, 8) torch.float32"]], "budget": (60.0, 0.05)}
    assert read_decision(str(tmp_path), facts) == ("", "")
    write_decision(str(tmp_path), facts, "eager", "no other way was faster for sure")
    assert read_decision(str(tmp_path), facts) == ("eager", "no other way was faster for sure")
    assert read_decision(str(tmp_path), {**facts, "world": 2}) == ("", "")
    Path(decision_path(str(tmp_path), facts)).write_text('{"way": "ind')
    assert read_decision(str(tmp_path), facts) == ("", "")


def test_a_decision_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write_decision(str(tmp_path / "file"), {}, "eager", "")
    assert read_decision(str(tmp_path / "file"), {}) == ("", "")
