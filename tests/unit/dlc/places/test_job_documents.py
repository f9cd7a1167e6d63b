"""What each place is given for a job's file: the documents in `documents/JOB/PLACE.txt`, or why the place refuses it.

`python tests/unit/dlc/places/test_job_documents.py` writes them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from dlc.__main__ import main
from dlc.job.job_spec import PLACES

ROOT = Path(__file__).parents[4]
FOLDER = Path(__file__).parent / "documents"
EXAMPLES = {"example": ROOT / "examples/heterogeneous/pytorch/job.yml", "example-ci": ROOT / "examples/ci/job.yml"}
# Data is at other addresses for each place, so this job has a file for each.
PER_GROUP = "per-group"
JOBS = {**{path.parent.name: path for path in sorted(FOLDER.glob("*/job.yml"))}, **EXAMPLES}
SHELL = {"HF_TOKEN": "of the shell", "AWS_CONFIG_FILE": "/nonexistent", "PATH": os.environ["PATH"]}
# The archive's bytes are those of the host's zlib.
PACKED = re.compile(r"(?<=source\.tar\.gz: )\S+")


def render_document(job: str, place: str) -> str:
    """Return what `dlc submit --dry-run` prints of a job; paths of this checkout are short."""
    file = JOBS.get(job, FOLDER / job / f"{place}.yml")
    words = ["submit", str(file), "--to", place, "--dry-run", "--name", "digits", "--output", "/results/digits"]
    if job in EXAMPLES and place != "local":
        words += ["--image", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/dlc/pytorch:2.13"]
    said, complained = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained)
    with patch.dict(os.environ, SHELL, clear=True), streams[0], streams[1]:
        code = main(words)
    text = said.getvalue() if not code else f"exit code {code}\n{complained.getvalue()}"
    return PACKED.sub("...", text.replace(str(ROOT), "/checkout"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("job", [*JOBS, PER_GROUP])
def test_a_job_is_for_each_place_the_document_that_is_kept(job: str, place: str) -> None:
    assert render_document(job, place) == (FOLDER / job / f"{place}.txt").read_text()


@pytest.mark.parametrize("place", PLACES)
def test_a_job_with_an_option_a_group_and_a_channel_of_a_group_goes_to_every_place(place: str) -> None:
    text = (FOLDER / PER_GROUP / f"{place}.txt").read_text()
    assert not text.startswith("exit code")
    for word in ("--epochs", "data_group", "raw", "labels"):
        assert word in text


def write_documents() -> Iterator[Path]:
    for job in (*JOBS, PER_GROUP):
        (FOLDER / job).mkdir(exist_ok=True)
        for place in PLACES:
            path = FOLDER / job / f"{place}.txt"
            path.write_text(render_document(job, place))
            yield path


if __name__ == "__main__":
    print(*write_documents(), sep="\n")
