"""dlc tune-batch: what a trial is, what it showed, and which batch is recommended."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.core.checkout import find_root
from dlc.core.errors import TuneError, UsageError
from dlc.places.local.job import Group, Job
from dlc.places.local.lifecycle import ContainerState
from dlc.tune import output
from dlc.tune.request import Mode, Request, list_modes, make_trial_job, read_batch
from dlc.tune.trial_result import DATA, FAILED, FITS, MEMORY, TIGHT, TIME, Ended, judge_trial
from dlc.tune.tune import Found, Search

TORCH = "pytorch-2.13-training-cpu-py311"
GB = 10**9
SAMPLE = 1000.0  # bytes


def request_of(tmp_path: Path, compiler: str = "", most: int = 4096) -> Request:
    job = Job("tune-1", "toy", tmp_path, (Group("g", ("algo-1",), memory="1g"),), (), "train.py", {"batch": "32"})
    return Request(job, "batch", 32, 0.1, "lr", list_modes(compiler), 0.1, most, 5, 60.0)


def state(code: int = 0, *, killed: bool = False) -> ContainerState:
    return ContainerState(True, False, 0, code, "", killed)


def report(peak: float, batch: int = 1, **others: Any) -> dict[str, Any]:
    memory = {"host": {"peak": int(peak), "steady": int(peak / 2), "limit": GB}, "device": None}
    known = {"state": "measured", "ranks": 1, "steps": 5, "step_seconds": 0.1, "batch_bytes": batch * SAMPLE}
    return {**known, "memory": memory, **others}


def ended(*reports: dict[str, Any], code: int = 0, said: str = "", killed: bool = False, late: bool = False) -> Ended:
    return Ended({"algo-1": state(code, killed=killed)}, {"algo-1": reports}, said, late)


def device(peak: float, limit: float | None) -> dict[str, Any]:
    memory = report(1)["memory"]
    return {"memory": {**memory, "device": {"peak": int(peak), "steady": 1, "limit": limit}}}


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (ended(report(0.9 * GB)), FITS),
        (ended(report(0.91 * GB)), TIGHT),
        (ended(report(0.5 * GB), report(0.5 * GB), code=0), TIGHT),  # two ranks share the host
        (ended(report(1, ranks=2), said="rank 1: exit code 3", code=3), FAILED),  # a rank is missing
        (ended(report(1), killed=True, code=0), MEMORY),  # a worker was killed
        (ended(code=137), MEMORY),
        (ended(code=1, said="torch.OutOfMemoryError: CUDA out of memory. Tried"), MEMORY),
        (ended(code=1, said="DefaultCPUAllocator: can't allocate memory"), MEMORY),
        (ended(code=137, late=True), TIME),
        (ended(), DATA),
        (ended(report(1, state="ended", steps=2)), DATA),
        (ended(code=1, said="NameError: x"), FAILED),
        (ended(report(0.1 * GB, **device(95, 100))), TIGHT),
        (ended(report(0.1 * GB, **device(85, 100))), FITS),
    ],
)
def test_what_a_trial_showed_is_told_apart(found: Ended, outcome: str) -> None:
    assert judge_trial("job", 1, found, margin=0.1).outcome == outcome


def test_a_batch_that_did_not_grow_as_asked_is_no_proof() -> None:
    trial = judge_trial("job", 64, ended(report(1, batch=32)), 0.1, SAMPLE)
    assert (trial.outcome, "32000 bytes" in trial.reason) == (DATA, True)
    assert judge_trial("job", 64, ended(report(1, batch=60)), 0.1, SAMPLE).fits


def test_an_image_whose_library_measures_no_memory_is_named() -> None:
    old = {name: value for name, value in report(1).items() if name != "memory"}
    assert "build it again" in judge_trial("job", 1, ended(old), 0.1).reason


def test_the_accelerator_is_named_where_it_is_closer_to_its_limit() -> None:
    trial = judge_trial("job", 1, ended(report(1, **device(80, 100))), 0.1)
    assert (trial.on_device, trial.peak, trial.limit) == (True, 80, 100)


def test_a_trial_is_the_job_with_another_batch_that_measures_itself_and_ends(tmp_path: Path) -> None:
    request = request_of(tmp_path, "inductor")
    eager, compiled = (make_trial_job(request, mode, 64) for mode in request.modes)
    assert compiled.hyperparameters == {"batch": "64"}
    assert (eager.environment["DLC_COMPILER"], compiled.environment["DLC_COMPILER"]) == ("off", "inductor")
    assert compiled.environment["DLC_PROFILE_ENDS_JOB"] == "1"
    assert len({eager.id, compiled.id, request.job.id}) == len({eager.folder, compiled.folder, tmp_path}) == 3


def search(request: Request, trial: Callable[[int], Ended]) -> tuple[Found, list[str]]:
    said: list[str] = []

    def start(mode: Mode, batch: int) -> Ended:
        assert mode in request.modes
        return trial(batch)

    return Search(request, request.modes[0], start, said.append).run(), said


def test_each_trial_is_shown_while_it_runs(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    running: list[str] = []
    shown: list[str] = []

    @contextmanager
    def show(name: str, what: str) -> Iterator[None]:
        running.append(f"{name}, {what}")
        yield
        shown.append(running.pop())

    def start(mode: Mode, batch: int) -> Ended:
        assert running == [f"{mode.name}, batch {batch}"]
        return ended(report(batch * GB / 100, batch))

    found = Search(request, request.modes[0], start, lambda _: None, show).run()
    assert sorted(shown) == sorted(f"{trial.mode}, batch {trial.batch}" for trial in found.trials)


def test_the_largest_batch_within_the_margin_is_found_and_the_rate_is_scaled_to_it(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    found, said = search(request, lambda b: ended(report(b * GB / 1000, b)) if b <= 1000 else ended(killed=True))
    assert 840 <= found.batch <= 900
    assert found.limit in (TIGHT, MEMORY)
    assert len(said) == len(found.trials)
    value = output.as_dict(request, [found])
    assert value["modes"][0]["learning_rate"]["linear"] == pytest.approx(0.1 * found.batch / 32)
    text = output.as_text(request, [found])
    assert f"job: batch={found.batch}, lr=" in text
    assert "memory" in text


def test_a_job_whose_own_batch_is_too_large_gets_a_smaller_one(tmp_path: Path) -> None:
    found, _ = search(request_of(tmp_path), lambda b: ended(report(b, b)) if b <= 5 else ended(killed=True))
    assert (found.batch, found.limit) == (5, MEMORY)


def test_where_the_data_end_the_search_ends(tmp_path: Path) -> None:
    found, _ = search(request_of(tmp_path), lambda b: ended(report(b, b)) if b <= 200 else ended())
    assert 188 <= found.batch <= 200
    assert found.limit == DATA


def test_the_largest_batch_that_is_allowed_is_not_exceeded(tmp_path: Path) -> None:
    found, _ = search(request_of(tmp_path, most=100), lambda b: ended(report(b, b)))
    assert (found.batch, found.limit) == (100, "")


@pytest.mark.parametrize(
    ("trial", "expected"),
    [
        (ended(code=1, said="NameError: x"), "NameError: x"),
        (ended(), "more epochs"),
        (ended(late=True), "--trial-seconds"),
        (ended(killed=True), "not even a batch of 1 fits"),
    ],
)
def test_what_no_batch_cures_is_one_error(tmp_path: Path, trial: Ended, expected: str) -> None:
    with pytest.raises(TuneError) as caught:
        search(request_of(tmp_path), lambda _: trial)
    assert expected in str(caught.value)
    assert caught.value.exit_code == 52


def test_eager_and_compiled_stand_side_by_side(tmp_path: Path) -> None:
    request = request_of(tmp_path, "inductor")
    trials = [
        tuple(judge_trial(mode.name, b, ended(report(b * 1e8, b)), 0.1) for b in (1, 2)) for mode in request.modes
    ]
    founds = [Found(mode.name, 2, "", each) for mode, each in zip(request.modes, trials, strict=True)]
    head, one, *_ = output.as_text(request, founds).splitlines()
    assert head.split()[:2] == ["BATCH", "EAGER"]
    assert "INDUCTOR PEAK" in head
    assert one.split().count("100.0") == 2
    assert json.dumps(output.as_dict(request, founds))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--hp", "batch=8"], "expected a limit that a batch can exceed"),
        (["--hp", "batch=8", "--gpus", "0"], "expected a limit that a batch can exceed"),
        (["--memory", "1g"], "found none at all"),
        (["--memory", "1g", "--hp", "batch=no"], "expected a number above 0"),
        (["--memory", "1g", "--hp", "batch=1.5"], "expected a whole number"),
        (["--memory", "1g", "--hp", "batch=8", "--most", "4"], "no less than the job's own batch"),
        (["--memory", "1g", "--hp", "batch=8", "--margin", "2"], "a share from 0"),
        (["--memory", "1g", "--hp", "batch=8", "--margin", "much"], "expected a share from 0 to below 1, found 'much'"),
        (["--memory", "1g", "--hp", "batch=8", "--trial-seconds", "x"], "expected 10 to 1000000 seconds, found 'x'"),
        (["--memory", "1g", "--hp", "batch=8", "--lr-name", "lr"], "found only batch"),
        (["--memory", "1g", "--hp", "batch=8", "--env", "DLC_PROFILE=0"], "sets this variable itself"),
        (["--memory", "1g", "--hp", "batch=8", "--checkpoints", "x"], "expected none"),
    ],
)
def test_what_is_wrong_is_one_message_and_starts_nothing(
    words: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(find_root(Path(__file__)))
    script = tmp_path / "train.py"
    script.write_text("")
    assert main(["tune-batch", "--hp-name", "batch", *words, TORCH, str(script)]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "tried"),
    [
        ("--batch 32 --lr 0.1", "--batch 64 --lr 0.1"),
        ("--lr 0.1 --batch=32", "--lr 0.1 --batch=64"),
        ("train batch=32 x", "train batch=64 x"),
        ("--batch 8 --batch 32", "--batch 8 --batch 64"),
        ("-batch 32 batch", "-batch 64 batch"),
    ],
)
def test_the_batch_is_tried_where_the_script_gets_it(typed: str, tried: str, tmp_path: Path) -> None:
    request = request_of(tmp_path)
    job = replace(request.job, command=("train", *typed.split()), hyperparameters={"other": "32"})
    assert read_batch(job, "batch") == 32
    trial = make_trial_job(replace(request, job=job), request.modes[0], 64)
    assert (trial.command, trial.hyperparameters) == (("train", *tried.split()), {"other": "32"})


@pytest.mark.parametrize(
    ("behind", "parameters", "expected"),
    [
        ("--lr 1", {}, "found only the arguments --lr 1"),
        ("--batch 8", {"batch": "8"}, "found both"),
        ("--batch", {}, "found only the arguments --batch"),
        ("--batch x", {}, "batch=x: expected a number above 0"),
    ],
)
def test_an_argument_that_is_no_batch_is_refused(
    behind: str, parameters: dict[str, str], expected: str, tmp_path: Path
) -> None:
    job = replace(request_of(tmp_path).job, command=("train", *behind.split()), hyperparameters=parameters)
    with pytest.raises(UsageError, match=expected):
        read_batch(job, "batch")


def test_a_namespace_of_the_verb_has_all_that_a_job_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dlc.cli import tune_batch
    from dlc.job.words import read_words

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    parser = argparse.ArgumentParser()
    tune_batch.add_arguments(parser)
    args = parser.parse_args(["id", "train.py", "--hp-name", "b", "--memory", "1g"], argparse.Namespace(arguments=None))
    spec = read_words(args).spec
    assert (spec.script, spec.resources.memory) == (str(tmp_path / "train.py"), "1g")
