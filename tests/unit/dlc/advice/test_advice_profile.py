"""`dlc profile`: what a report of a run means, and the advice that follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from profile_reports import READS, REPORT, written

from dlc.__main__ import main
from dlc.core.errors import UsageError

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "processors", "CPU-bound: all processors are busy"),
        ({"waiting_seconds": 0.5}, "computing", "not waiting for data"),
        ({"cpu": {"busy": 0.3}}, "workers", "too few workers"),
        # 9.6 s for a batch, one each 0.184 s
        ({"cpu": {"busy": 0.15, "usable": 64.0}}, "workers", "give the DataLoader num_workers=53 (it has 8)"),
        ({"cpu": {"busy": 0.3}, "preprocessing": {"cpu_seconds": 12.0}}, "input", "bound by reading"),
        ({"cpu": {"busy": 0.3}, "preprocessing": {"batches": 0}}, "elsewhere", "could not be seen"),
        ({"cpu": {"busy": 0.3, "host": 8, "others": 5.0}}, "others", "other programs took the processors"),
        # On a busy host too workers that are asleep wait for files, and only workers in lines for other programs.
        (
            {
                "cpu": {"busy": 0.3, "host": 8, "others": 5.0},
                "preprocessing": {"cpu_seconds": 12.0, "queued_seconds": 50.0},
            },
            "input",
            "bound by reading",
        ),
        (
            {
                "cpu": {"busy": 0.3, "host": 8, "others": 5.0},
                "preprocessing": {"cpu_seconds": 12.0, "queued_seconds": 900.0},
            },
            "others",
            "other programs took the processors: workers stand in a line for a processor 78% of the time",
        ),
        ({"cpu": {"busy": 0.3, "host": 8, "others": 0.5}}, "workers", "too few workers"),
        # One worker that prepares a batch in a step's time, and rests: another one changes nothing.
        (
            {
                "cpu": {"busy": 0.1},
                "waiting_seconds": 9.2,
                "preprocessing": {
                    "workers": 1,
                    "batches": 100,
                    "seconds": 9.0,
                    "cpu_seconds": 9.0,
                    "queued_seconds": 0.0,
                },
            },
            "elsewhere",
            "its workers prepare batches fast enough",
        ),
        (
            {
                "cpu": {"busy": 0.1},
                "waiting_seconds": 2.0,
                "preprocessing": {
                    "workers": 1,
                    "batches": 100,
                    "seconds": 18.3,
                    "cpu_seconds": 18.2,
                    "queued_seconds": 0.0,
                },
            },
            "workers",
            "give the DataLoader num_workers=2 (it has 1)",
        ),
        ({"cpu": {"busy": 0.3}, "preprocessing": {"queued_seconds": 400.0}}, "processors", "line for a processor 35%"),
        # Workers that get no processor do not wait for files.
        (
            {"cpu": {"busy": 0.3}, "preprocessing": {"cpu_seconds": 480.0, "queued_seconds": 280.0}},
            "workers",
            "too few workers",
        ),
        ({"starting_seconds": 60.0}, "processors", "persistent_workers=True"),
        ({"cpu": {"busy": 0.3}, "framework": "tensorflow"}, "workers", "tf.data.AUTOTUNE"),
        (
            {"cpu": {"busy": 0.3}, "framework": "tensorflow", "preprocessing": {"parallel": True}},
            "workers",
            "a part of the pipeline is not parallel",
        ),
        (
            {"compiling": {"steps": 2, "seconds": 31.25}},
            "processors",
            "2 steps in which something was compiled, 31.2 s",
        ),
    ],
)
def test_what_a_job_waits_for_follows_from_waits_processors_and_workers(
    changes: dict[str, Any], kind: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path, **changes)
    assert main(["profile", str(folder)]) == 0
    assert words in capsys.readouterr().out
    assert main(["profile", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["kind"] == kind


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "sure: nothing"),
        ({"steps": 12}, "not sure: only 12 steps were measured"),
        ({"cpu": {"host": 8, "others": 2.0}}, "not sure: other programs took 25% of the host's 8 processors"),
        ({"cpu": {"busy": 0.84}}, "not sure: a figure is close to a bound"),
        ({"cpu": {"busy": 0.3}}, "not sure: what other programs took could not be seen"),
        (
            {"cpu": {"busy": 0.3, "host": 8, "others": 0.1, "pressure": {"container": None, "host": 0.75}}},
            "not sure: programs stood in a line for a processor 75% of the time",
        ),
    ],
)
def test_it_says_how_sure_it_is_and_what_speaks_against_it(
    changes: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(written(tmp_path, **changes))]) == 0
    assert words in capsys.readouterr().out.splitlines()[-1]


def test_a_report_alone_feeds_the_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The step, the CPU seconds and the bytes of a batch are the report's; with torch, data hosts prepare all."""
    measured = ["--data-cpu-seconds", "5.888", "--data-workers", "32", "--json"]
    assert main(["profile", str(written(tmp_path)), "--on", "p3.2xlarge", *measured]) == 0
    value = json.loads(capsys.readouterr().out)
    chosen = value["choices"][value["chosen"]]
    assert (chosen["cluster"]["data"], chosen["cluster"]["data_hosts"]) == ("c5.9xlarge", 1)
    assert f"{chosen['faster']:.1f}x {chosen['cheaper']:.0%}" == "6.5x 77%"
    assert (value["job"]["where"], value["job"]["batch_bytes"]) == ("data-hosts", 3_211_264)
    assert value["profile"]["kind"] == "processors"


@pytest.mark.parametrize("verb", ["profile", "advise"])
def test_a_step_without_an_accelerator_says_nothing_of_one(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cpu"
    folder.mkdir()
    file = written(folder) / "rank-0.json"
    file.write_text(json.dumps({**REPORT, "gpu": None}))
    assert main([verb, str(folder), "--on", "p3.2xlarge"]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "its 184.0 ms say nothing of the step on the V100 of p3.2xlarge" in said
    assert "--step-ms" in said
    assert main([verb, str(folder), "--on", "p3.2xlarge", "--step-ms", "20"]) == 0
    assert main([verb, str(folder), "--on", "c5.9xlarge"]) == 0


# The same, and the worker computes.
PREPARES = {**READS, "preprocessing": {**READS["preprocessing"], "cpu_seconds": 31.9}}


@pytest.mark.parametrize("verb", ["profile", "advise"])
@pytest.mark.parametrize(
    ("changes", "bound", "first"),
    [
        (READS, "reading", "first give the DataLoader num_workers=11 (it has 1), then measure again"),
        (
            {**READS, "preprocessing": {**READS["preprocessing"], "workers": 0, "seconds": 29.4}},
            "reading", "first give the DataLoader num_workers=11, then measure again",
        ),
        (PREPARES, "too few workers", "first give the DataLoader num_workers=8 (it has 1), then measure again"),
        (
            {**PREPARES, "preprocessing": {**PREPARES["preprocessing"], "queued_seconds": 20.0, "cpu_seconds": 12.0},
             "cpu": {"busy": 0.1, "host": 8, "others": 7.0}},
            "other programs", "first measure on a host that is free",
        ),
        (
            {**READS, "preprocessing": {**READS["preprocessing"], "slow": {"batches": 4, "of": 99, "share": 0.9}}},
            "a few slow batches", "first look at the samples of those, then measure again",
        ),
        (
            {**READS, "waiting_seconds": 0.9, "preprocessing": {**READS["preprocessing"], "seconds": 0.3}},
            "what could not be seen", "what it waits for was not measured",
        ),
        (
            {**READS, "waiting_seconds": 0.9, "cpu": {"busy": 0.1, "usable": 64.0},
             "preprocessing": {"batches": 100, "workers": 32, "seconds": 50.0, "cpu_seconds": 50.0}},
            "what could not be seen", "what it waits for was not measured",
        ),
        ({**READS, "steps": 4}, "what too few steps do not tell", "first measure more steps"),
        (
            {**READS, "cpu": {"busy": 0.95}, "preprocessing": {**READS["preprocessing"], "queued_seconds": 30.0}},
            "what could not be seen", "the CPU seconds of a batch explain 29.0 ms of a step",
        ),
    ],
)  # fmt: skip
def test_a_job_that_waits_for_what_no_machine_changes_gets_the_measured_step_and_what_to_do_first(
    verb: str, changes: dict[str, Any], bound: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    each = (changes["waiting_seconds"] + changes["computing_seconds"]) / changes.get("steps", 100)
    argv = [verb, str(written(tmp_path, **changes)), "--on", "p3.2xlarge", "--price", "p3.2xlarge=3.6"]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "never waits" not in text
    assert f"bound by {bound}: " in text
    assert f"advice: same machine ({first}" in text
    assert main([*argv, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    [choice] = value["choices"]
    assert choice["bound"] == bound
    assert choice["step_seconds"] == pytest.approx(each, rel=0.01)
    assert choice["usd_per_1000_steps"] == pytest.approx(each, rel=0.01)
    assert (value["data_hosts"], value["gpu_preprocessing_pays_below_seconds"]) == ([], None)


def test_a_shorter_step_on_another_machine_waits_for_what_workers_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report's step of 1 s hides the 0.32 s that its worker needs for a batch; one of 20 ms does not."""
    slow = {**READS, "step_seconds": 1.0, "waiting_seconds": 1.0, "computing_seconds": 99.0}
    argv = ["advise", str(written(tmp_path, **slow)), "--on", "p3.2xlarge", "--json"]
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["choices"][0]["step_seconds"] == pytest.approx(1.0)
    assert main([*argv, "--step-ms", "20"]) == 0
    [choice] = json.loads(capsys.readouterr().out)["choices"]
    assert (choice["bound"], choice["step_seconds"]) == ("reading", pytest.approx(0.319))


def test_a_machine_with_more_processors_than_the_reports_host_is_not_said_to_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(
        tmp_path, cpu={"usable": 2.0}, preprocessing={"cpu_seconds": 120 * 2.3, "seconds": 120 * 2.4, "workers": 2}
    )
    assert main(["advise", str(folder), "--on", "c5.18xlarge", "--step-ms", "200"]) == 0
    text = capsys.readouterr().out
    assert "advice: same machine (72 vCPUs are enough by the model; the report's 2 were not)" in text
    assert "never waits" not in text


def test_ranks_of_one_host_share_its_processors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        written(tmp_path, rank, cpu={"usable": 16.0})
    assert main(["advise", str(tmp_path), "--on", "p3.8xlarge", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (len(value["choices"]) > 1, value["choices"][0]["bound"]) == (True, "preprocessing")


def test_training_that_shares_full_processors_with_preprocessing_is_no_job_that_never_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = {"waiting_seconds": 4.0, "preprocessing": {"cpu_seconds": 120 * 1.4, "seconds": 120 * 1.6}}
    assert main(["advise", str(written(tmp_path, **shared)), "--on", "p3.2xlarge", "--json"]) == 0
    [choice] = json.loads(capsys.readouterr().out)["choices"]
    assert (choice["bound"], choice["step_seconds"]) == ("processors", pytest.approx(0.224))


def test_ranks_that_differ_are_shown_each_and_never_as_their_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = {**READS["preprocessing"], "workers": 0, "seconds": 8.4}
    few = {"step_seconds": 0.092, "waiting_seconds": 0.8, "computing_seconds": 9.2}
    many = {"step_seconds": 0.016, "waiting_seconds": 8.4, "computing_seconds": 1.6}
    written(tmp_path, 0, **{**READS, **few, "preprocessing": {**work, "seconds": 0.8, "cpu_seconds": 0.05}})
    written(tmp_path, 1, **{**READS, **many, "preprocessing": work, "host": "algo-2"})
    assert main(["profile", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "waiting for data          8% to 84% of the time" in text
    assert "46%" not in text
    assert "the ranks differ: the figures above are those of rank 1" in text
    assert "rank 1 on algo-2: waits 84% of the time, 16.0 ms for a step: bound by reading" in text
    assert "rank 0 on algo-1: waits 8% of the time, 92.0 ms for a step: bound by reading" in text
    assert main(["profile", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profile"]
    assert (found["ranks_differ"], found["waiting"], found["step_seconds"]) == (True, pytest.approx(0.84), 0.016)
    assert [rank["wait"] for rank in found["ranks"]] == [pytest.approx(0.08), pytest.approx(0.84)]


def test_of_many_ranks_that_differ_some_rows_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(40):
        written(tmp_path, rank, **{**READS, "waiting_seconds": 0.8 * rank})
    assert main(["profile", str(tmp_path)]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  rank ")]
    assert [int(row.split()[1]) for row in rows] == [39, 38, 37, 36, 35, 34, 33, 0]


@pytest.mark.parametrize("share", [0.79, 0.81])
def test_ranks_that_wait_about_as_long_have_a_mean(
    share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, 0, **{**READS, "waiting_seconds": 100 * share, "computing_seconds": 100 * (1 - share)})
    written(tmp_path, 1, **{**READS, "waiting_seconds": 61.0, "computing_seconds": 39.0})
    assert main(["profile", str(tmp_path)]) == 0
    assert ("the ranks differ" in capsys.readouterr().out) == (share == 0.81)


def test_advise_takes_the_report_and_what_is_given_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(written(tmp_path))
    assert main(["advise", folder, "--on", "p3.2xlarge", "--step-ms", "100", "--json"]) == 0
    job = json.loads(capsys.readouterr().out)["job"]
    assert (job["step"], job["cpu"]) == (0.1, pytest.approx(9.544))
    assert main(["advise", folder, "--on", "p3.2xlarge"]) == 0
    text = capsys.readouterr().out
    assert text.index("CPU-bound: all processors are busy") < text.index("advice: heterogeneous")


def test_ranks_are_taken_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    written(tmp_path, rank=1, preprocessing={"cpu_seconds": 120 * 4.0}, gpu=None)
    assert main(["profile", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profile"]
    assert (found["cpu_seconds"], found["gpu_use"], len(found["ranks"])) == (pytest.approx(6.772), 0.15, 2)
