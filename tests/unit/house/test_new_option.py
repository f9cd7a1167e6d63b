"""An option of a job is three edits: its field, its flag, and the place that honours it. This test makes them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from dlc.__main__ import main
from dlc.job import stated_job, words
from dlc.job.job_file import format_job, read_job_file
from dlc.job.job_spec import PLACES, JobSpec
from dlc.places import kubernetes
from dlc.places.field_table import Probe, read_cell

PROBE = Probe("priority", {"priority": "high"}, "high")


# The first edit.
class WithPriority(JobSpec):
    priority: str = Field(default="", description="how soon the job is to begin")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(stated_job, "JobSpec", WithPriority)
    # The second one.
    flag = words.Flag("--priority", "priority", "CLASS", "how soon the job begins", words._read_plain, False)
    monkeypatch.setattr(words, "FLAGS", (*words.FLAGS, flag))
    # The third one.
    render = kubernetes.render_job

    def render_job(job: Any, options: Any) -> Any:
        document = render(job, options)
        return replace(document, text=f"{document.text}# priorityClassName: {job.priority}\n")

    monkeypatch.setattr(kubernetes, "render_job", render_job)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return tmp_path


def test_a_new_option_goes_from_the_command_line_through_a_file_to_a_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    words.add_flags(parser)
    args = parser.parse_args(
        ["--priority", "high"], argparse.Namespace(image="registry.example/x:1", script="train.py")
    )
    typed = words.read_words(args).spec
    (folder / "job.yml").write_text(format_job(typed, folder))
    assert "priority: high" in (folder / "job.yml").read_text()
    assert read_job_file(folder / "job.yml").spec == typed
    assert main(["submit", "job.yml", "--to", "kubernetes", "--dry-run", "--name", "digits"]) == 0
    assert "priorityClassName: high" in capsys.readouterr().out


@pytest.mark.parametrize("place", [place for place in PLACES if place != "kubernetes"])
def test_a_place_that_neither_honours_nor_refuses_the_new_option_is_named(place: str, folder: Path) -> None:
    assert read_cell(PROBE, "kubernetes", folder) == "honoured"
    with pytest.raises(AssertionError, match=f"{place} drops priority without a word"):
        read_cell(PROBE, place, folder)
