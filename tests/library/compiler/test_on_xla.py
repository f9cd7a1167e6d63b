"""What the report says of PyTorch/XLA where torch_xla is installed."""

from __future__ import annotations

import pytest
from torch_runs import SCRIPTS, Runner, assert_same_model, functions


@pytest.fixture
def xla_runner(runner: Runner) -> Runner:
    if "torch_xla" not in runner.python.has:
        pytest.skip("torch_xla is not installed")
    return runner


CPU = {"PJRT_DEVICE": "CPU", "DLC_COMPILER_DEBUG": "1"}


def test_a_script_on_an_xla_device_trains_the_same_model_and_has_a_report(xla_runner: Runner) -> None:
    eager = xla_runner.run("on_xla.py", "cpu", compiler="")
    run = xla_runner.run("on_xla.py", compiler="xla", environ=CPU)
    assert_same_model(eager, run, 1e-5)
    [rank] = run.report["ranks"]
    assert (rank["backend"], rank["device"], rank["state"]) == ("xla", "CPU", "ended")
    assert "torch_xla" in rank["framework"]
    assert [graph["step"] for graph in run.report["graphs"]] == [2]
    assert 0 < run.report["compile_seconds"] <= run.report["steps"]["warm_up"]["seconds"]
    assert run.report["cache_hits"] == 22  # steps that ran the graph of the first one
    assert run.report["recompilations"] == run.report["warnings"] == []
    [metrics] = (run.folder / "report/debug").glob("metrics-rank-0-*.txt")
    assert "UncachedCompile" in metrics.read_text()


def test_on_an_xla_device_the_cause_of_a_recompilation_is_the_shape_that_was_new(xla_runner: Runner) -> None:
    report = xla_runner.run("on_xla.py", "shapes", compiler="xla", environ=CPU).report
    [again] = report["recompilations"]
    assert (again["step"], again["kind"], again["cause"]) == (14, "shape", "inputs of shapes [6, 8], before [4, 8]")
    assert again["file"].endswith("on_xla.py")


def test_on_an_xla_device_an_operation_that_runs_on_the_cpu_is_warned_about(xla_runner: Runner) -> None:
    run = xla_runner.run("on_xla.py", "fallback", compiler="xla", environ=CPU)
    assert "aten::linalg_eig" in functions(run.report, "fallbacks")
    assert "XLA does not have it: it runs on the CPU" in run.log


def test_sharded_over_four_xla_devices_a_script_trains_the_same_model(xla_runner: Runner) -> None:
    eager = xla_runner.run("on_xla_sharded.py", "cpu", compiler="")
    devices = {**CPU, "CPU_NUM_DEVICES": "4", "XLA_THREAD_POOL_SIZE": "4"}
    run = xla_runner.run("on_xla_sharded.py", compiler="xla", environ=devices)
    assert_same_model(eager, run, 1e-5)
    batch, weight = run.results[0]["shardings"]
    assert "devices=[2,1,2]" in batch
    assert "devices=[1,2,2]" in weight
    [rank] = run.report["ranks"]
    assert (rank["backend"], rank["device"], rank["state"]) == ("xla", "CPU, 4 devices", "ended")
    assert run.report["steps"]["count"] == 24
    assert [graph["step"] for graph in run.report["graphs"]] == [2, 3]  # the second for weights that lie otherwise
    assert run.report["recompilations"] == run.report["fallbacks"] == run.report["warnings"] == []


def test_the_trainer_as_it_comes_trains_the_same_model_on_an_xla_device(xla_runner: Runner) -> None:
    """Its default optimizer is fused, which torch refuses on XLA devices."""
    if not {"transformers", "accelerate"} <= set(xla_runner.python.has):
        pytest.skip("transformers is not installed")
    eager = xla_runner.run("trainer.py", "anywhere", compiler="", environ={"USE_TORCH_XLA": "0"})
    run = xla_runner.run("trainer.py", "anywhere", compiler="xla", environ=CPU)
    assert (eager.results[0]["device"], run.results[0]["device"]) == ("cpu", "xla:0")
    assert_same_model(eager, run, 1e-4)
    assert run.report["steps"]["count"] == 10
    assert {graph["file"] for graph in run.report["graphs"]} == {str(SCRIPTS / "trainer.py")}
    assert run.report["recompilations"] == run.report["fallbacks"] == run.report["warnings"] == []
    assert [note for note in run.report["notes"] if note.startswith("XLA has no fused AdamW")]


def test_a_script_that_trains_elsewhere_is_told_that_nothing_is_compiled(runner: Runner) -> None:
    run = runner.run("plain.py", compiler="xla")
    assert "nothing is compiled: the script trains on cpu. Remedy: move model and data to torch_xla.device()" in run.log
    assert run.report["graphs"] == []
    assert [entry["reason"] for entry in run.report["eager"]] == [
        "it is on cpu, and XLA compiles what runs on its own devices"
    ]
    assert run.report["steps"]["eager"]["steps"] == 12
    failed = runner.run("plain.py", compiler="xla", environ={"DLC_COMPILER_STRICT": "1"}, fails=True)
    assert failed.code == 1
    assert "StrictError: DLC_COMPILER_STRICT=1: nothing is compiled" in failed.log
