"""TensorFlow models of transformers, on tf-keras: the same model under XLA, through fit and through a loop."""

from __future__ import annotations

import pytest
from tensorflow_runs import Runner
from torch_runs import functions


@pytest.mark.parametrize(("how", "name", "way"), [("fit", "", "jit_compile"), ("loop", "step", "auto-clustering")])
def test_a_bert_is_compiled(tensorflow_runner: Runner, how: str, name: str, way: str) -> None:
    if not {"transformers", "tf_keras"} <= set(tensorflow_runner.python.has):
        pytest.skip("transformers and tf_keras are not installed")
    run = tensorflow_runner.both("transformer.py", how, environ={"TF_USE_LEGACY_KERAS": "1"})
    assert f"with xla ({way})" in run.log
    [function] = functions(run.report, "graphs")
    assert function == (name or run.report["modules"][0]["module"])
    assert run.report["recompilations"] == run.report["eager"] == run.report["fallbacks"] == []
