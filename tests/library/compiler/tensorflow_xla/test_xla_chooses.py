"""Whether XLA compiles a function's steps is found out by measuring: no job runs slower for it to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow_runs import Runner, at_once
from torch_runs import Run, assert_same_model

AUTO = {"DLC_COMPILER_MODE": "auto"}
FEW_STEPS = {"STEPS": "150"}  # a longer job looks again if the host's speed changes
MOST_BASELINE = 6
MOST_STEPS_OF_A_WAY = 5 + 6 * 2 * (50 + 1)  # to compile, and of six pairs of blocks, the fewest that tell


@pytest.mark.parametrize("how", ["loop", "fit"])
def test_a_function_that_xla_makes_slower_goes_back_and_the_next_job_does_not_try_again(
    tensorflow_runner: Runner, tmp_path: Path, how: str
) -> None:
    if how == "fit" and "keras" not in tensorflow_runner.python.has:
        pytest.skip("keras is not installed")
    environ = {**AUTO, "DLC_COMPILE_CACHE": str(tmp_path / "cache")}
    run = tensorflow_runner.both("turns.py", how, "with", environ=environ)
    ways = [way["way"] for way in run.report["ways"]]
    assert ways == (["eager", "auto-clustering"] if how == "loop" else ["eager", "jit_compile", "auto-clustering"])
    assert run.report["choosing"]["way"] == "eager"
    for way in ways[1:]:
        assert any(f"{way}: " in line and line.endswith(": left: slower") for line in run.log.splitlines())
    first = next(line for line in run.log.splitlines() if "eager from step " in line)
    assert int(first.partition("eager from step ")[2].split()[0]) <= MOST_BASELINE + len(ways[1:]) * MOST_STEPS_OF_A_WAY
    again = tensorflow_runner.run("turns.py", how, "with", environ={**environ, **FEW_STEPS})
    assert "as a job before has chosen" in again.log
    assert again.report["choosing"]["kept"]
    assert again.report["graphs"] == again.report["modules"] == []


def test_a_model_that_said_no_to_xla_and_is_compiled_anew_without_that_chooses(tensorflow_runner: Runner) -> None:
    if "keras" not in tensorflow_runner.python.has:
        pytest.skip("keras is not installed")
    run = tensorflow_runner.run("turns.py", "anew", "with", environ=AUTO)
    assert [way["way"] for way in run.report["ways"]] == ["eager", "jit_compile", "auto-clustering"]
    assert run.report["choosing"]["way"] == "eager"


def test_a_function_that_xla_makes_faster_is_taken_at_once_by_the_next_job(
    tensorflow_runner: Runner, tmp_path: Path
) -> None:
    environ = {**AUTO, "DLC_COMPILE_CACHE": str(tmp_path / "cache")}
    run = tensorflow_runner.both("turns.py", "loop", "without", environ=environ)
    assert run.report["choosing"]["way"] == "auto-clustering"
    assert "auto-clustering from step " in run.log
    [_, taken] = run.report["ways"]
    assert taken["outcome"] == "taken"
    assert taken["low"] > 1.03
    assert taken["memory_bytes"] == 0, "there is no GPU"
    steps, [rank] = run.report["steps"], run.report["ranks"]
    measured = sum(part["steps"] for part in rank["steps"]["timeline"] if part["phase"] == "after")
    assert measured == steps["after"]["steps"], "a processor has nothing to wait for, so each step is measured"
    again = tensorflow_runner.run("turns.py", "loop", "without", environ={**environ, **FEW_STEPS})
    assert again.report["choosing"]["from_step"] == 6
    assert again.report["cache_misses"] == 0


@pytest.mark.parametrize(("slow", "way"), [("with", "eager"), ("without", "auto-clustering")])
def test_workers_of_several_hosts_take_the_same_way_at_the_same_step(
    tensorflow_runner: Runner, tmp_path: Path, slow: str, way: str
) -> None:
    """Only one of them is slower with XLA, or without it."""
    plain = at_once(tensorflow_runner, ["turns.py", "workers", slow], "", {})
    runs = at_once(tensorflow_runner, ["turns.py", "workers", slow], "xla", AUTO)
    for expected, found in zip(plain, runs, strict=True):
        assert_same_model(expected, found, 1e-4)
    choices = [run.report["choosing"] for run in runs]
    assert choices[0]["way"] == choices[1]["way"] == way
    assert choices[0]["from_step"] == choices[1]["from_step"]


@pytest.mark.parametrize("mode", ["auto", "default"])
def test_shapes_that_change_without_an_end_are_compiled_a_few_times_and_then_run_without_xla(
    tensorflow_runner: Runner, mode: str
) -> None:
    if "keras" not in tensorflow_runner.python.has:
        pytest.skip("keras is not installed")
    assert_given_up(tensorflow_runner.both("storms.py", "fit", environ={"DLC_COMPILER_MODE": mode}))


def test_few_lengths_are_compiled_in_each_way(tensorflow_runner: Runner) -> None:
    """A warning asks for at most 8: two ways compile each of them once."""
    if "keras" not in tensorflow_runner.python.has:
        pytest.skip("keras is not installed")
    run = tensorflow_runner.run("storms.py", "buckets", environ=AUTO)
    assert [way["way"] for way in run.report["ways"]][1:] == ["jit_compile", "auto-clustering"]
    assert run.report["gave_up"] == []


@pytest.mark.parametrize(
    ("how", "mode"), [("fit", "auto"), ("fit", "default"), ("on_batch", "default"), ("ragged", "default")]
)
def test_so_are_those_where_the_programs_of_xla_cannot_be_seen(tensorflow_runner: Runner, how: str, mode: str) -> None:
    """The shapes of a step's batches tell it."""
    if how != "ragged" and "keras" not in tensorflow_runner.python.has:
        pytest.skip("keras is not installed")
    run = tensorflow_runner.both("unseen.py", "storms.py", how, environ={"DLC_COMPILER_MODE": mode})
    assert_given_up(run)
    assert any("cannot be seen" in note for note in run.report["notes"])
    [entry] = run.report["gave_up"]
    assert "it was float32[" in entry["cause"]


def assert_given_up(run: Run) -> None:
    [entry] = run.report["gave_up"]
    assert entry["file"].endswith("storms.py")
    steps = {graph["step"] for graph in run.report["graphs"]}
    assert 0 < len(steps) <= 10
    [line] = [line for line in run.log.splitlines() if "it runs without XLA from step" in line]
    assert "bucket" in line
    assert f"storms.py:{entry['line']}" in line


def test_the_report_says_how_much_memory_of_a_gpu_each_way_took(tensorflow_runner: Runner) -> None:
    run = tensorflow_runner.run("peaks.py", "loop", "without", environ={**AUTO, **FEW_STEPS})
    assert {way["way"]: way["memory_bytes"] >> 20 for way in run.report["ways"]} == {
        "eager": 100,
        "auto-clustering": 300,
    }
    assert {way["function"] for way in run.report["ways"]} == {"loop.step"}
