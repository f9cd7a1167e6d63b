"""Every `dlc run` that examples/README.md shows works as it stands there, and does what its words say."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from dlc.core.checkout import find_root
from harness.dlc_run import DlcRun
from harness.images import Image

pytestmark = pytest.mark.integration

PAGE = find_root() / "examples/README.md"
SECONDS = 300.0
EPOCHS, DIGITS = 3, 1437


def words_of(script: str, *options: str, without: str = "") -> list[str]:
    """The page's one command that runs the script with these options, from the image on."""
    lines = re.findall(r"^dlc run (.*)$", PAGE.read_text(), re.MULTILINE)
    found = [
        words for words in map(shlex.split, lines)
        if f"examples/{script}" in words and set(options) <= set(words) and without not in words
    ]  # fmt: skip
    assert len(found) == 1, f"{PAGE}: expected one command with {script} {options}, found {found}"
    return found[0]


def run(image: Image, folder: Path, words: list[str]) -> DlcRun:
    """The command has ended well, in this image instead of the page's."""
    with DlcRun(folder / "run", image.ref, *words[1:], cache=folder / "cache") as job:
        assert job.wait(SECONDS) == 0, job.output
        return job


def metrics(job: DlcRun) -> dict[str, Any]:
    return dict(json.loads((job.results / "output/metrics-rank0.json").read_text()))


def model(job: DlcRun) -> set[str]:
    return {path.name for path in (job.results / "model").iterdir()}


@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_digits_are_prepared_on_the_host_that_trains(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("heterogeneous/pytorch/train.py", without="--group"))
    assert metrics(job)["prepared_on"] == {"algo-1": EPOCHS * DIGITS}
    assert metrics(job)["accuracy"] > 0.8
    assert model(job) == {"model.pt"}


@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_digits_are_prepared_on_two_other_hosts_each_once(image: Image, tmp_path: Path) -> None:
    job = run(image, tmp_path, words_of("heterogeneous/pytorch/train.py", "--group"))
    prepared = metrics(job)["prepared_on"]
    assert set(prepared) == {"algo-1", "algo-2"}, job.output
    assert sum(prepared.values()) == EPOCHS * DIGITS
    assert metrics(job)["accuracy"] > 0.8
    assert model(job) == {"model.pt"}
    assert "algo-1 0, algo-2 0, algo-3 0" in job.output
