"""The frameworks' compilers work on a CPU with what is in the image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engine import CALM_OPTIONS, run_once
from harness.images import Image

pytestmark = pytest.mark.container

SCRIPTS = Path(__file__).parent / "scripts"
OF_THE_LIBRARY = Path(__file__).parents[1] / "library/compiler/scripts"
TOLERANCE = 1e-5  # single precision, values of order one


def run_script(image: Image, name: str) -> list[str]:
    """Lines that a script of this folder printed in a fresh container, which has no compiler cache."""
    options = (*CALM_OPTIONS, "--volume", f"{SCRIPTS}:/scripts:ro")
    done = run_once(image.ref, "python", f"/scripts/{name}", options=options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.when(framework="pytorch", version=">=2.0,<2.5")  # newer images compile in a job: test_compiler_jobs.py
def test_torch_compile_works_on_cpu(image: Image) -> None:
    [difference] = run_script(image, "torch_compile.py")
    assert float(difference) < TOLERANCE


@pytest.mark.when(framework="pytorch", version=">=2.6")
def test_no_attention_mask_is_compiled_where_eager_code_computes_none(image: Image) -> None:
    """By the image's own transformers and dlc_runtime; nothing is compiled for it, graphs are only captured."""
    done = run_once(
        image.ref,
        "sh",
        "-c",
        "RESULTS=/tmp python /scripts/masks.py bert vit gpt2 llama && cat /tmp/0.json",
        options=(*CALM_OPTIONS, "--volume", f"{OF_THE_LIBRARY}:/scripts:ro", "--network=none"),
    )
    assert done.returncode == 0, done.stderr
    models = json.loads(done.stdout.splitlines()[-1])
    masks = {model: [has for graph in found["graphs"] for has in graph] for model, found in models.items()}
    assert {model for model, found in masks.items() if any(found)} == set()
    # Dynamo of PyTorch 2.6 traces no BERT of transformers as a whole.
    assert {model for model, found in masks.items() if found} >= {"vit", "gpt2", "llama"}


@pytest.mark.when(framework="tensorflow")
def test_xla_compiles_a_tensorflow_function_on_cpu(image: Image) -> None:
    difference, compiled = run_script(image, "tensorflow_xla.py")
    assert float(difference) < TOLERANCE
    assert compiled == "True"
