"""Which shapes XLA compiles for, and what is said of them, where its programs cannot be seen. Needs no TensorFlow."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from dlc_runtime.compiler.tensorflow_xla.batch_shapes import MetShapes, is_watched, read_shapes, shape_text
from dlc_runtime.compiler.tensorflow_xla.functions import COMPILED, LEFT, TrainedFunction
from dlc_runtime.compiler.tensorflow_xla.turns import CLUSTERS, WHOLE


def batch(length: int) -> tuple[str, ...]:
    return (f"float32[4,{length}]", "int64[4]")


def test_a_whole_step_is_compiled_for_each_shape_once() -> None:
    met = MetShapes(waits=False)
    assert met.add(batch(5)) == ""
    assert met.add(batch(5)) is None
    assert met.add(batch(6)) == "argument 0 is float32[4,6], it was float32[4,5]"
    assert met.add(batch(5)) is None, "its program is there"
    assert met.add(batch(7)) == "argument 0 is float32[4,7], it was float32[4,6]"


def test_clusters_are_compiled_for_another_shape_when_it_comes_again() -> None:
    met = MetShapes(waits=True)
    assert met.add(batch(5)) == ""
    assert [met.add(batch(length)) for length in range(6, 40)] == [None] * 34
    assert met.add(batch(5)) is None
    assert met.add(batch(7)) == "argument 0 is float32[4,7], it was float32[4,5]"
    assert met.add(batch(7)) is None


def test_steps_without_tensors_are_one_shape() -> None:
    met = MetShapes(waits=False)
    assert [met.add(()), met.add(())] == ["", None]


def test_a_model_that_is_compiled_anew_has_met_nothing() -> None:
    trained = TrainedFunction("net", "train.py", 3)
    trained.met[WHOLE] = MetShapes(waits=False)
    trained.forget_programs()
    assert trained.met == {}


def test_only_tensors_have_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may be called with a model, and with a variable of any rank."""
    float32 = SimpleNamespace(name="float32")
    array = SimpleNamespace(dtype="int64", shape=(3,))
    layer, any_rank = SimpleNamespace(dtype="float32"), SimpleNamespace(dtype=float32, shape=SimpleNamespace(rank=None))
    nest = SimpleNamespace(flatten=lambda values, expand_composites: list(values))
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(nest=nest))
    assert read_shapes((array, layer, any_rank, 0.1, None)) == ("int64[3]",)


def test_only_graphs_for_xla_are_watched() -> None:
    """A job that runs without it has no cost of that."""
    trained = TrainedFunction("net", "/site-packages/keras/trainer.py", 3)
    assert not is_watched(trained), "an evaluation"
    trained.training = True
    assert is_watched(trained), "its clusters are made of the graph of its first steps"
    trained.ways = (WHOLE, CLUSTERS)
    assert not is_watched(trained), "it is traced again for XLA"
    trained.begin(COMPILED)
    assert is_watched(trained)
    trained.begin(LEFT)
    assert not is_watched(trained)
    assert is_watched(TrainedFunction("step", "train.py", 3)), "it may ask for a gradient"


def test_a_shape_is_written_as_xla_writes_it() -> None:
    assert shape_text(SimpleNamespace(name="float32"), (8, 64)) == "float32[8,64]"
    assert shape_text("int64", ()) == "int64[]"
