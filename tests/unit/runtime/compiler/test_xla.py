"""What the report says of PyTorch/XLA: from counters as it documents them, and on torch_xla where it is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch_runs import SCRIPTS, Runner, assert_same_model, functions

from dlc_runtime.compiler.report.merge import merged
from dlc_runtime.compiler.report.steps import AFTER, EAGER, WARM_UP, Steps
from dlc_runtime.compiler.report.summary import paragraph
from dlc_runtime.compiler.xla.fused import unfuse
from dlc_runtime.compiler.xla.graphs import Graphs
from dlc_runtime.compiler.xla.metrics import Metrics, read

WHERE = {"function": "train", "file": "/opt/ml/code/train.py", "line": 9, "step": 1}
SMALL, LARGE = ((8, 16),), ((8, 24),)


class Counters:
    """torch_xla.debug.metrics after some steps; a counter is there from its first count on."""

    def __init__(self, counters: dict[str, int], compiling: tuple[int, float] | None) -> None:
        self.counters, self.compiling = counters, compiling

    def counter_names(self) -> list[str]:
        return list(self.counters)

    def counter_value(self, name: str) -> int | None:
        return self.counters.get(name)

    def metric_data(self, name: str) -> tuple[int, float, tuple[Any, ...]] | None:
        assert name == "CompileTime"
        return (*self.compiling, ()) if self.compiling else None


def test_counters_become_graphs_seconds_and_fallbacks() -> None:
    counters = {"UncachedCompile": 3, "CachedCompile": 40, "aten::nonzero": 12, "xla::add": 9}
    found = read(Counters(counters, (3, 4.5e9)))
    assert found == Metrics(3, 40, 4.5, ("aten::nonzero",))
    assert read(Counters({}, None)) == Metrics()


def run(*steps: tuple[int, tuple[tuple[int, ...], ...]]) -> tuple[Graphs, list[str], list[str]]:
    """Each step: how many graphs are compiled so far, and the shapes of its input. Returns phases and warnings too."""
    graphs, phases, warnings = Graphs(), [], []
    for number, (compiled, shapes) in enumerate(steps, 1):
        found = Metrics(compiled, 0, float(compiled))
        phase, said = graphs.after_step(found, shapes, {**WHERE, "step": number})
        phases.append(phase)
        warnings += said
    return graphs, phases, warnings


def test_a_step_that_compiled_is_warm_up_and_the_others_are_not() -> None:
    graphs, phases, warnings = run((0, SMALL), (1, SMALL), (2, SMALL), (2, SMALL), (2, SMALL))
    assert phases == [WARM_UP, WARM_UP, WARM_UP, AFTER, AFTER]
    assert [graph["step"] for graph in graphs.graphs.values()] == [2, 3]
    assert graphs.compile_seconds == 2.0
    assert graphs.recompilations == warnings == []


@pytest.mark.parametrize("seen_at", [4, 5])
def test_a_new_shape_is_the_cause_of_what_is_compiled_with_it_or_one_step_later(seen_at: int) -> None:
    compiled = [0, 1, 1, 1, 1, 2]
    compiled[seen_at - 1 :] = [2] * (7 - seen_at)
    shapes = [SMALL, SMALL, SMALL, LARGE, SMALL, SMALL]
    graphs, phases, _ = run(*zip(compiled, shapes, strict=True))
    [again] = graphs.recompilations
    assert (again["kind"], again["cause"]) == ("shape", "inputs of shapes [8, 24], before [8, 16]")
    assert "padding='max_length'" in again["remedy"]
    assert phases[seen_at - 1] == WARM_UP


def test_what_is_compiled_again_with_known_shapes_has_another_cause() -> None:
    graphs, _, _ = run((0, SMALL), (1, SMALL), (1, SMALL), (1, SMALL), (2, SMALL))
    assert [again["kind"] for again in graphs.recompilations] == ["other"]
    assert "DLC_COMPILER_DEBUG=1" in graphs.recompilations[0]["remedy"]


def test_a_storm_is_warned_about_while_it_happens() -> None:
    steps = [(0, SMALL), (1, SMALL), (1, SMALL), *((2 + number, ((8, 30 + number),)) for number in range(6))]
    _, _, warnings = run(*steps)
    assert len(warnings) == 2  # the third and the sixth
    assert "train (/opt/ml/code/train.py:9) was compiled again 3 times" in warnings[0]


def test_an_operation_that_xla_does_not_have_is_named_once() -> None:
    graphs = Graphs()
    for step in range(1, 4):
        _, warnings = graphs.after_step(Metrics(1, 0, 1.0, ("aten::nonzero",)), SMALL, {**WHERE, "step": step})
        assert bool(warnings) == (step == 1)
    [fallback] = graphs.fallbacks
    assert (fallback["function"], fallback["type"]) == ("aten::nonzero", "no lowering")


def test_the_paragraph_of_a_job_that_ran_nothing_eager_compares_nothing() -> None:
    steps = Steps()
    for number, phase in enumerate([WARM_UP, WARM_UP, *[AFTER] * 30]):
        steps.tick(phase, float(number))
    graphs, _, _ = run((0, SMALL), (1, SMALL))
    record = {"rank": 0, "pid": 1, "backend": "xla", "steps": steps.as_json(), **graphs.as_json()}
    text = paragraph(merged([record]), "x")
    assert text.startswith("compiled what ran on XLA devices: 1 graph in 1.0 s")
    assert "A step takes 1.00 s. Report: x" in text
    assert EAGER not in {stretch["phase"] for stretch in steps.as_json()["timeline"]}


def test_a_value_that_is_read_is_a_note_and_no_warning() -> None:
    graphs = Graphs()
    _, warnings = graphs.after_step(Metrics(1, 0, 1.0, ("aten::_local_scalar_dense",)), SMALL, WHERE)
    assert warnings == []
    assert graphs.fallbacks == []
    assert "do it once in a hundred steps" in graphs.notes[0]


def test_every_group_is_unfused_and_again_when_a_checkpoint_brings_the_flag_back() -> None:
    optimizer: Any = SimpleNamespace(param_groups=[{"fused": None}, {"fused": True}, {"lr": 0.1}])
    assert unfuse(optimizer)
    assert optimizer.param_groups == [{"fused": None}, {"fused": False}, {"lr": 0.1}]
    assert not unfuse(optimizer)
    optimizer.param_groups[1]["fused"] = True
    assert unfuse(optimizer)
    assert optimizer.param_groups[1] == {"fused": False}


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
