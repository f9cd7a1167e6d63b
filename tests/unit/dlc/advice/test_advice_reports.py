"""Which reports `dlc profile` and `dlc advise` take, and what they say of those that they cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from profile_reports import REPORT, written

from dlc.__main__ import main
from dlc.core.errors import ProfileError, UnmeasuredError

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "expected JSON"),
        ("[1]", "expected a report of version 1, found 'list'"),
        (json.dumps({**REPORT, "version": 2}), "expected a report of version 1, found 2"),
        (json.dumps({**REPORT, "steps": "many"}), 'steps: expected a whole number, found "many"'),
        (json.dumps({**REPORT, "cpu": {"usable": 8.0}}), "cpu.busy: expected a number from 0 on, found null"),
        (json.dumps({**REPORT, "waiting_seconds": -1}), "waiting_seconds: expected a number from 0 on, found -1"),
        (json.dumps({**REPORT, "step_seconds": float("nan")}), "step_seconds: expected a number from 0 on"),
        (json.dumps({**REPORT, "step_seconds": float("inf")}), "step_seconds: expected a number from 0 on"),
        (json.dumps({**REPORT, "batch_bytes": 10**400}), "batch_bytes: expected a number from 0 on, found 1000"),
        (json.dumps({**REPORT, "steps": -3}), "steps: expected a whole number, found -3"),
        (json.dumps({**REPORT, "step_seconds": 5e-324}), "expected at least one measured step"),
        (json.dumps({**REPORT, "waiting_seconds": 0, "computing_seconds": 0}), "expected at least one measured step"),
        (json.dumps({**REPORT, "steps": 0}), "expected at least one measured step"),
        (json.dumps({**REPORT, "preprocessing": []}), "preprocessing: expected an object"),
        ("[" * 100_000, "expected JSON"),
    ],
)
def test_a_report_that_cannot_be_used_is_one_message_with_the_place(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rank-0.json"
    file.write_text(text)
    assert main(["profile", str(file)]) == ProfileError.exit_code
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"dlc: {file}: ")) == ("", True)
    assert words in err
    assert "remedy: " in err


def test_a_folder_without_reports_and_a_file_that_is_not_there_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(tmp_path)]) == ProfileError.exit_code
    assert f"{tmp_path}: expected files rank-*.json" in capsys.readouterr().err
    assert main(["advise", str(tmp_path / "absent.json")]) == ProfileError.exit_code
    assert "absent.json: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["profile", "advise"])
def test_a_job_without_a_loop_over_data_left_no_folder_and_has_an_error_of_its_own(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "output").mkdir()
    assert main([verb, str(tmp_path / "output/profile"), "--on", "p3.2xlarge"]) == UnmeasuredError.exit_code
    said = capsys.readouterr().err
    assert "a loop over a DataLoader or a tf.data.Dataset" in said
    assert "dlc_runtime.profile.watch(batches)" in said
    assert "No such file" not in said


def test_reports_of_two_jobs_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    written(tmp_path, rank=1, framework="tensorflow")
    assert main(["profile", str(tmp_path)]) == ProfileError.exit_code
    assert "found tensorflow and torch" in capsys.readouterr().err


def test_advice_without_the_cpu_seconds_of_a_batch_says_how_to_give_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(written(tmp_path, preprocessing={"batches": 0}))
    assert main(["profile", folder, "--on", "p3.2xlarge"]) == ProfileError.exit_code
    assert "--cpu-seconds S" in capsys.readouterr().err
    assert main(["advise", folder, "--on", "p3.2xlarge", "--cpu-seconds", "9"]) == 0
