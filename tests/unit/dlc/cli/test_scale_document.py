"""docs/scale.md: its tables are those of benchmarks/scale.py, and its commands answer what the page says."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.job.job_file import read_job_file
from dlc.job.job_spec import PLACES
from dlc.places import local
from dlc.places.field_table import OPTIONS, REGISTRY
from dlc.places.place import load_place, read_place_options
from harness.job_spec import group_of, spec_of

ROOT = Path(__file__).parents[4]
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


@pytest.mark.parametrize("place", PLACES[1:])
def test_a_document_says_a_number_of_hosts_and_no_names(place: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    module = load_place(place)
    words = {"role": "arn:aws:iam::123456789012:role/Training", "region": "eu-west-1"} if place == "sagemaker" else {}

    def render(hosts: int) -> str:
        job = spec_of(
            tmp_path / "train.py", groups=[group_of("homogeneousCluster", hosts, instance_type="ml.c5.xlarge")]
        )
        return module.render_job(job, module.OPTIONS(**words)).text

    assert render(1000).replace("1000", "8") == render(8)


@pytest.mark.parametrize("groups", ["", "groups: {data: {hosts: 200}, dnn: {hosts: 800}}\n"], ids=["one", "two"])
@pytest.mark.parametrize("place", PLACES[1:])
def test_a_file_of_1000_hosts_goes_to_every_place_but_this_machine(place: str, groups: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    text = f"image: {REGISTRY}/pytorch:2.13\nscript: train.py\nhosts: 1000\n{groups}"
    (tmp_path / "job.yml").write_text(text)
    file = read_job_file(tmp_path / "job.yml")
    here = [refusal.expected for refusal in local.refuse_job(file.spec, local.OPTIONS())]
    assert here == ["at most 100 hosts in all on one machine"]
    module = load_place(place)
    options = read_place_options(module, place, None, OPTIONS.get(place, ()))
    job = file.spec.place("digits", tmp_path / "digits", lambda image: image)
    assert job.host_count == 1000
    assert list(module.refuse_job(job, options)) == []
    assert ("800" if groups else "1000") in module.render_job(job, options).text


@pytest.mark.parametrize(("hosts", "code"), [("100", 0), ("101", 2)])
def test_this_machine_runs_100_hosts_and_saves_a_file_of_more(hosts: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    words = ["run", "--hosts", hosts, "dlc/pytorch:2.13-training-cpu-py311", str(tmp_path / "train.py")]
    assert main([*words[:1], "--explain", *words[1:]]) == code
    assert main([*words[:1], "--save", str(tmp_path / "job.yml"), *words[1:]]) == 0
    assert f"hosts: {hosts}" in (tmp_path / "job.yml").read_text()


@pytest.mark.parametrize("name", ["DLC_HOSTS", "DLC_RANK", "DLC_GROUPS", "JOBSET_NAME", "SLURM_JOB_ID"])
def test_a_variable_that_says_who_the_hosts_are_is_refused_here_too(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("")
    words = ["run", "--env", f"{name}=a,b", "--explain", "dlc/pytorch:2.13-training-cpu-py311"]
    assert main([*words, str(tmp_path / "train.py")]) == 2
    assert f"--env {name}: expected hosts that dlc names" in capsys.readouterr().err
