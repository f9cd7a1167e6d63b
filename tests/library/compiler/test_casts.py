"""What the Trainer wraps around a model costs no graph break, and one cast beside those of a plain loop's autocast."""

from __future__ import annotations

from typing import Any

import pytest
from torch_runs import Runner


def test_a_model_as_the_trainer_wraps_it_is_one_graph_with_one_cast_more(runner: Runner) -> None:
    """The cast is that of its outputs to float32. GPT-2's loss says once that its configuration names no loss."""
    if not {"transformers", "accelerate"} <= set(runner.python.has):
        pytest.skip("the Python that runs the scripts has no transformers, or no accelerate")
    found: dict[str, Any] = runner.run("casts.py", compiler="").results[0]
    if not found:
        pytest.skip("PyTorch 2.6 does not trace what transformers wraps around a forward")
    for name, ways in found.items():
        [plain], [wrapped] = ways["plain"], ways["accelerate"]
        assert wrapped["operations"] == plain["operations"], name
        assert plain["casts"] < wrapped["casts"] <= plain["casts"] + 1, name
