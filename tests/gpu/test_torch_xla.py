"""PyTorch/XLA on a GPU, through the PJRT plug-in that JAX publishes: it trains as PyTorch does on the CPU."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType
from typing import Any, Callable

import pytest


@pytest.fixture(scope="module")
def answer(why_no_gpu: str, run_program: Callable[..., Any]) -> Any:
    """What programs/torch_xla_gpu.py found."""
    if find_spec("torch_xla") is None:
        pytest.skip("torch_xla is not installed")
    if find_spec("jax_plugins") is None or find_spec("jax_plugins.xla_cuda12") is None:
        pytest.skip("torch_xla has no GPU client and the plug-in, jax-cuda12-pjrt, is not installed")
    if why_no_gpu:
        pytest.skip(f"torch_xla has no GPU: {why_no_gpu}")
    return run_program("torch_xla_gpu.py")


def test_the_device_is_a_gpu(answer: Any) -> None:
    assert answer["kind"] in ("CUDA", "GPU")


def test_a_process_that_is_alone_sees_all_gpus(torch: ModuleType, answer: Any) -> None:
    """SPMD spreads one process over them."""
    assert answer["devices"] == torch.cuda.device_count()


def test_training_takes_the_losses_of_the_cpu(answer: Any) -> None:
    assert answer["gpu"] == pytest.approx(answer["cpu"], rel=1e-2)  # XLA may multiply in TF32
    assert answer["gpu"][-1] < answer["gpu"][0]
