"""The core of test_comparison.py, in seconds: each fault is refused, and nothing that is right."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from faulty import GRADIENTS, Switch, Way  # noqa: E402 - they need torch
from test_comparison import fault, refused  # noqa: E402

CASES = [("dropout", "float32"), ("batchnorm", "autocast"), ("tied", "bfloat16")]


@pytest.mark.parametrize(("model", "form"), CASES)
@pytest.mark.parametrize("name", GRADIENTS)
def test_a_fault_in_all_gradients_or_in_one_layers_is_refused(model: str, form: str, name: str) -> None:
    for only in ("", "head"):
        with fault(name, only):
            assert "differs from eager" in refused(Way(model, form))


@pytest.mark.parametrize(("model", "form"), CASES)
def test_what_rounds_otherwise_is_accepted_and_a_wrong_output_is_not(model: str, form: str) -> None:
    Switch.exact = True
    try:
        assert refused(Way(model, form)) == ""
    finally:
        Switch.exact = False
    Switch.output = lambda value: value * 1.01
    try:
        assert refused(Way(model, form))
    finally:
        Switch.output = None
