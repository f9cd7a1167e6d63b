"""docs/scale.md: its tables are those of benchmarks/scale.py, and its commands answer what the page says."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.submit.places import SubmittedGroup, SubmittedJob, load_place

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/scale.md").read_text()
# A paragraph of the page says several of these answers.
TEXT = " ".join(PAGE.split())
COMMANDS = re.findall(r"^dlc (.+)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def scale() -> dict[str, Any]:
    """The script that computes the tables."""
    return runpy.run_path(str(ROOT / "benchmarks/scale.py"))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_tables_are_those_that_the_script_writes(scale: dict[str, Any]) -> None:
    assert scale["write_tables"](PAGE) == PAGE, "python benchmarks/scale.py docs/scale.md"


def test_a_page_without_a_tables_mark_is_refused(scale: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="the marks of the table 'rates'"):
        scale["write_tables"]("# A page\n")


def test_more_hosts_never_have_the_image_sooner(scale: dict[str, Any]) -> None:
    for gigabit in (0, 10, 100):
        times = [scale["seconds_to_pull"](hosts, gigabit) for hosts in scale["HOSTS"]]
        assert times == sorted(times)
    # Each of 1,000 hosts takes 3.36 GB over a line of 10 Gbit/s.
    assert scale["seconds_to_pull"](1000, 10) == pytest.approx(1000 * 5.51 * 0.61 * 8 / 10)
    assert scale["seconds_to_pull"](1, 10) == pytest.approx(5.51e9 / 200e6)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_answers_what_the_page_says(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)) == 0
    out = capsys.readouterr().out
    [(number, unit)] = re.findall(r"save: after each (\S+) (min|h \d+ min) of training", out)
    share = round(float(re.findall(r"all of it +(\d+\.\d+)%", out)[0]), 1)
    if "--on" in command:
        [(each, machine, count)] = re.findall(r"data hosts: (\S+) x (\S+) for each training host, (\d+) for all", out)
        assert f"It answers {each} {machine} for each p4d.24xlarge, {count} for all" in TEXT
        [dollars] = re.findall(r"all of it .* (\d+\.\d\d)$", out, re.MULTILINE)
        assert f"{dollars} USD a day" in TEXT
    else:
        assert re.search(rf"{re.escape(number)} {unit}utes and (that )?{re.escape(str(share))}%", TEXT)


@pytest.mark.parametrize("place", ["slurm", "kubernetes", "sagemaker", "skypilot", "dstack"])
def test_a_document_says_a_number_of_hosts_and_no_names(place: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    module = load_place(place)
    words = {"role": "arn:aws:iam::123456789012:role/Training", "region": "eu-west-1"} if place == "sagemaker" else {}

    def render(hosts: int) -> str:
        group = SubmittedGroup("homogeneousCluster", hosts, instance_type="ml.c5.xlarge")
        job = SubmittedJob(
            name="digits", image="registry.example/pytorch:2.13", groups=(group,), code=(tmp_path / "train.py",),
            program="train.py", hyperparameters={}, channels={}, checkpoints="", environment={},
            secrets=("DLC_JOB_TOKEN",), folder=tmp_path / "digits",
        )  # fmt: skip
        return module.render_job(job, module.OPTIONS(**words)).text

    assert render(1000).replace("1000", "8") == render(8)
