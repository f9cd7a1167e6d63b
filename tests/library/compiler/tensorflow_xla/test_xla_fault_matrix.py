"""Faults times models: all that differ are refused, and none that is right."""

from __future__ import annotations

import pytest
from fault_runs import GRADIENTS, LATER, OTHERS, UNSEEN_IN_16_BITS, refused, train
from tensorflow_runs import Runner, at_once
from torch_runs import assert_same_model

# A LayerNormalization behind it takes the factor out again.
HARMLESS = {"norm": {"outputs"}}
MODELS = ("mlp", "adam", "momentum", "dropout", "norm", "tied", "bf16", "loop")


@pytest.mark.parametrize("model", MODELS)
def test_each_fault_in_a_model_is_refused_and_the_model_without_one_is_not(
    tensorflow_runner: Runner, model: str
) -> None:
    if "keras" not in tensorflow_runner.python.has:
        pytest.skip("keras is not installed")
    unseen = HARMLESS.get(model, set()) if model != "bf16" else UNSEEN_IN_16_BITS
    seen = [fault for fault in (*GRADIENTS, *OTHERS, *LATER) if fault not in unseen]
    run = train(tensorflow_runner, [f"{model}:{fault}" for fault in ("right", *seen)])
    assert refused(run) == {f"{model}:{fault}" for fault in seen}


@pytest.mark.parametrize("mode", ["auto", "default"])
def test_a_fault_in_one_of_two_processes_is_refused_in_both(tensorflow_runner: Runner, mode: str) -> None:
    """Gradients are summed, so the other process would train with it."""
    environ = {"DLC_COMPILER_MODE": mode}
    plain = at_once(tensorflow_runner, ["faults.py", "workers:double"], "", environ)
    runs = at_once(tensorflow_runner, ["faults.py", "workers:double"], "xla", environ)
    for expected, found in zip(plain, runs, strict=True):
        assert_same_model(expected, found, 1e-4)
        said = found.log if mode == "auto" else found.report["eager"][0]["reason"]
        assert "it differs from eager by" in said
