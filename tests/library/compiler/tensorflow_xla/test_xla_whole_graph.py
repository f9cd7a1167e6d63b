"""What XLA's program holds once for all operations that differ in nothing but their values."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tensorflow_runs import SCRIPTS
from torch_runs import HANGS, TorchPython

MADE = "tensorflow.python.eager.polymorphic_function.atomic_function"


@pytest.fixture(scope="module")
def made(tensorflow_python: TorchPython) -> dict[str, Any]:
    """Of each function the numbers of Sqrt, Relu and StatelessCase, and its values: plain, and with what is shared."""
    has = f"import importlib.util, sys, tensorflow; sys.exit(importlib.util.find_spec('{MADE}') is None)"
    if subprocess.run([tensorflow_python.path, "-c", has], capture_output=True, timeout=HANGS, check=False).returncode:
        pytest.skip("this TensorFlow makes functions elsewhere")
    argv = [tensorflow_python.path, SCRIPTS / "whole_graph.py"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_operations_of_the_same_shape_are_one_and_those_without_a_like_stay(made: dict[str, Any]) -> None:
    (plain, _), (shared, _) = made["alike"]
    assert (plain, shared) == ([3, 1, 0], [1, 1, 2])


@pytest.mark.parametrize("function", ["alike", "of_a_shape", "differentiated"])
def test_what_is_computed_is_the_same_to_the_bit_gradients_too(made: dict[str, Any], function: str) -> None:
    (_, plain), (_, shared) = made[function]
    assert plain == shared


def test_what_xla_must_know_before_it_runs_stays(made: dict[str, Any]) -> None:
    (plain, _), (shared, _) = made["of_a_shape"]
    assert plain == shared == [2, 0, 0]
