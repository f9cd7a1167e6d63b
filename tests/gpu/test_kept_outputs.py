"""What a script keeps of steps that a CUDA graph replays is what eager steps give: nothing changes under the script."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import pytest

SOURCES = Path(__file__).parents[2] / "src"
CASES = (
    "sum_of_losses", "losses_in_a_list", "logits_in_a_list", "large_logits_in_a_list", "accumulated_gradients",
    "gradients_set_to_zero_in_place", "gradients_read_after_another_forward",
    "mean_of_the_weights", "second_forward", "steps_of_another_model_between", "evaluation_between", "generated",
    "gradients_in_a_list", "gradients_by_a_function", "gradients_of_the_input", "attributes", "hooks",
    "hook_of_a_parameter",
)  # fmt: skip


def library() -> dict[str, str]:
    """Return the variables with which a Python finds dlc_runtime: an image's own, or that of this checkout."""
    if find_spec("dlc_runtime") is not None:
        return {}
    if not (SOURCES / "dlc_runtime").exists():
        pytest.skip("neither an image nor a checkout: there is no dlc_runtime")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(SOURCES), os.environ.get("PYTHONPATH"))))}


@pytest.fixture(scope="module")
def both(
    compiling: ModuleType, run_program: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What programs/kept_outputs.py printed, eager and with CUDA graphs through the compiler runtime."""
    release = tuple(int(part) for part in compiling.__version__.split(".")[:2])
    if release < (2, 3):
        pytest.skip(f"the compiler runtime begins with PyTorch 2.3, this is {compiling.__version__}")
    found = library()
    graphs = {
        "DLC_COMPILER": "inductor", "DLC_COMPILER_MODE": "cuda-graphs", "DLC_COMPILER_EAGER_STEPS": "2",
        "DLC_COMPILER_REPORT": str(tmp_path_factory.mktemp("report")),
    }  # fmt: skip
    return {
        "eager": run_program("kept_outputs.py", environ={**found, "DLC_COMPILER": "off"}),
        "graphs": run_program("kept_outputs.py", environ={**found, **graphs}),
    }


def test_steps_were_replayed_as_cuda_graphs(both: dict[str, Any]) -> None:
    assert both["eager"]["replays"] == 0
    assert both["graphs"]["replays"] > 0


@pytest.mark.parametrize("case", CASES)
def test_what_a_script_keeps_is_what_eager_steps_give(both: dict[str, Any], case: str) -> None:
    assert both["graphs"]["cases"][case] == pytest.approx(both["eager"]["cases"][case], rel=1e-4, abs=1e-5)
