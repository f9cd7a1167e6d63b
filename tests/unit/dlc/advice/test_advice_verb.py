"""`dlc advise`: tables, pictures and JSON of the same figures; one message for what it cannot use."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dlc.__main__ import main
from dlc.core.errors import UsageError

ROOT = Path(__file__).parents[4]
TENSORFLOW = ["--on", "p4d.24xlarge", "--step-ms", "86", "--cpu-seconds", "2.304"]
MEASURED = ["--measured", "p3.2xlarge=1193", "--measured", "p3.2xlarge+c5.9xlarge=184"]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_advice_is_a_table_with_the_choice_marked_and_the_prices_with_their_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["advise", *TENSORFLOW]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("p4d.24xlarge has 12; its accelerators work 45% of the time")
    assert lines[1] == "advice: heterogeneous: p4d.24xlarge + 2 x c5.18xlarge (it costs least for each step)"
    assert lines[2] == "  2.2x faster, 46% cheaper for each step"
    [row] = [line.split() for line in lines if line.startswith("> ")]
    assert row[7:] == ["30:1", "86", "11.63", "100%", "computing", "45.032", "1.076", "2.2x", "46%", "161", "1.23"]
    assert lines[-1].split() == ["c5.18xlarge", "3.672", "(heterogeneous-article,", "2022-10-27)"]


def test_measured_clusters_are_compared_without_any_other_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *MEASURED]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("p3.2xlarge + c5.9xlarge"))
    assert row.split()[3:] == ["44:1", "184", "5.43", "5.661", "0.289", "6.5x", "77%", "806"]


def test_json_has_every_figure_unrounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *TENSORFLOW, *MEASURED, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    chosen = value["choices"][value["chosen"]]
    assert (chosen["kind"], chosen["cluster"]["data"], chosen["cluster"]["data_hosts"]) == (
        "heterogeneous",
        "c5.18xlarge",
        2,
    )
    assert chosen["usd_per_1000_steps"] == pytest.approx(45.032 / 3600 * 86)
    assert chosen["cheaper"] == pytest.approx(1 - 86 * 45.032 / (192 * 37.688))
    assert value["measured"][1]["faster"] == pytest.approx(1193 / 184)
    assert [row["cluster"]["data_hosts"] for row in value["data_hosts"]] == [0, 1, 2, 3]


def test_an_unknown_price_stays_unknown_until_the_user_gives_one(capsys: pytest.CaptureFixture[str]) -> None:
    g5 = ["advise", "--on", "g5.12xlarge", "--step-ms", "100", "--cpu-seconds", "2"]
    assert main([*g5, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["choices"][0]["usd_per_hour"] is None
    assert value["choices"][1]["cheaper"] is None
    assert main(g5) == 0
    text = capsys.readouterr().out
    assert "g5.24xlarge  unknown: give it with --price" in text
    assert "prices" in text.splitlines()[1]
    assert main([*g5, "--price", "g5.12xlarge=7", "--price", "ml.g5.24xlarge=10", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["choices"][value["chosen"]]["kind"] == "heterogeneous"  # 8.836 USD for an hour, not 10
    assert value["why"] == "it costs least for each step"


@pytest.mark.parametrize("machine", ["g5.12xlarge", "g4dn.xlarge", "p5.48xlarge"])
def test_where_no_price_is_known_preprocessing_on_the_gpu_is_offered_by_its_time(
    machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["advise", "--on", machine, "--step-ms", "100", "--cpu-seconds", "60"]
    assert main([*argv, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    fastest = min(choice["step_seconds"] for choice in value["choices"])
    assert value["gpu_preprocessing_pays_below_seconds"] is None
    assert value["gpu_preprocessing_faster_below_seconds"] == pytest.approx(fastest - 0.1)
    assert main(argv) == 0
    assert "preprocessing on the GPU (DALI) is faster than each of these" in capsys.readouterr().out


def test_what_the_figures_assume_is_said_until_it_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *TENSORFLOW]) == 0
    text = capsys.readouterr().out
    assert "preprocessing runs on all vCPUs at once" in text
    assert "a vCPU of c5.18xlarge is as fast as the training host's (--data-cpu-seconds: measured)" in text
    assert "sending batches takes no time (--batch-mb: the size of a batch)" in text
    assert main(["advise", *TENSORFLOW, "--data-cpu-seconds", "2", "--batch-mb", "1"]) == 0
    text = capsys.readouterr().out
    assert "--data-cpu-seconds" not in text
    assert "--batch-mb" not in text


def test_of_a_machine_without_accelerators_none_are_spoken_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--on", "c5.9xlarge", "--step-ms", "100", "--cpu-seconds", "9"]) == 0
    out = capsys.readouterr().out
    assert "accelerator" not in out
    assert "GPU" not in out
    assert "preprocessing needs 90 vCPUs for each host, c5.9xlarge has 36; it trains 40% of the time" in out
    assert "training leaves the vCPUs to preprocessing" in out
    argv = ["advise", "--on", "c5.9xlarge", "--step-ms", "100", "--cpu-seconds", "9", "--gpu-preprocess-ms", "5"]
    assert main(argv) == UsageError.exit_code


def test_the_picture_is_one_svg_file_that_needs_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "advice.svg"
    assert main(["advise", *TENSORFLOW, "--svg", str(file)]) == 0
    assert capsys.readouterr().out
    root = ElementTree.fromstring(file.read_text())
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert "width" not in root.attrib
    assert float(root.attrib["viewBox"].split()[2]) <= 480  # 14 units high letters: more than 10 of 360 pixels
    words = [text.text for text in root.iter(f"{space}text")]
    assert "1.076 USD" in words
    assert words.count("p4d.24xlarge + 2 x c5.18xlarge") == 2
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{space}rect") if bar.get("class") == "orange"]
    assert bars[1] / bars[0] == pytest.approx(1.076 / 2.010, abs=0.001)
    assert "href" not in file.read_text()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "expected --step-ms and --cpu-seconds, or a REPORT"),
        (["--step-ms", "86"], "expected --cpu-seconds, or a REPORT"),
        (["--step-ms", "86", "--cpu-seconds", "2"], "expected --on CLUSTER"),
        ([*TENSORFLOW, "--on", "p4d.24xlarg"], "did you mean 'p4d.24xlarge'?"),
        ([*TENSORFLOW, "--on", "p4d.24xlarge+c5.9xlarge"], "--data-host names those"),
        ([*TENSORFLOW, "--data-host", "c9.*"], "no machine 'c9.*'"),
        ([*TENSORFLOW, "--price", "p4d.24xlarge=-1"], "TYPE=USD with a number above 0"),
        ([*TENSORFLOW, "--step-ms", "1e-300"], "expected a number above 0, from 1e-09 to 1e+12"),
        ([*TENSORFLOW, "--price", "p4d.24xlarge=1e308"], "TYPE=USD with a number above 0"),
        ([*TENSORFLOW, "--step-ms", "0"], "expected a number above 0"),
        ([*TENSORFLOW, "--step-ms", "inf"], "expected a number above 0"),
        ([*TENSORFLOW, "--data-workers", "0"], "--data-workers: expected a whole number above 0, found '0'"),
        ([*TENSORFLOW, "--data-workers", "-3"], "--data-workers: expected a whole number above 0, found '-3'"),
        (["--measured", "p4d.24xlarge"], "CLUSTER=MS with a number above 0"),
    ],
)
def test_what_cannot_be_used_is_one_message(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *argv]) == UsageError.exit_code
    out, err = capsys.readouterr()
    assert (out, words in err) == ("", True), err
