"""What the report says of PyTorch/XLA, from counters as it documents them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dlc_runtime.compiler.report.merge import merge_records
from dlc_runtime.compiler.report.step_times import AFTER, EAGER, WARM_UP, StepTimes
from dlc_runtime.compiler.report.summary import summary
from dlc_runtime.compiler.xla_graphs import Metrics, PyTorchXlaRecord, read_metrics, unfuse

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
    found = read_metrics(Counters(counters, (3, 4.5e9)))
    assert found == Metrics(3, 40, 4.5, ("aten::nonzero",))
    assert read_metrics(Counters({}, None)) == Metrics()


def run(*steps: tuple[int, tuple[tuple[int, ...], ...]]) -> tuple[PyTorchXlaRecord, list[str], list[str]]:
    """Each step: how many graphs are compiled so far, and the shapes of its input. Returns phases and warnings too."""
    graphs, phases, warnings = PyTorchXlaRecord(), [], []
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
    graphs = PyTorchXlaRecord()
    for step in range(1, 4):
        _, warnings = graphs.after_step(Metrics(1, 0, 1.0, ("aten::nonzero",)), SMALL, {**WHERE, "step": step})
        assert bool(warnings) == (step == 1)
    [fallback] = graphs.fallbacks
    assert (fallback["function"], fallback["type"]) == ("aten::nonzero", "no lowering")


def test_the_paragraph_of_a_job_that_ran_nothing_eager_compares_nothing() -> None:
    steps = StepTimes()
    for number, phase in enumerate([WARM_UP, WARM_UP, *[AFTER] * 30]):
        steps.tick(phase, float(number))
    graphs, _, _ = run((0, SMALL), (1, SMALL))
    record = {"rank": 0, "pid": 1, "backend": "xla", "steps": steps.as_json(), **graphs.as_json()}
    text = summary(merge_records([record]), "x")
    assert text.startswith("All steps were compiled, none ran eager beside them: compiling took 1.0 s.\n")
    assert "Compiled what ran on XLA devices: 1 graph in 1.0 s" in text
    assert "A step takes 1.00 s.\nReport: x" in text
    assert EAGER not in {stretch["phase"] for stretch in steps.as_json()["timeline"]}


def test_a_value_that_is_read_is_a_note_and_no_warning() -> None:
    graphs = PyTorchXlaRecord()
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
