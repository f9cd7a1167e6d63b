"""Horovod over all GPUs of the host, a process each: sums and averaged gradients of tensors that lie on them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Callable

import pytest

FRAMEWORKS = ("torch", "tensorflow")


@pytest.fixture(scope="module", params=FRAMEWORKS)
def answer(request: pytest.FixtureRequest, run_program: Callable[..., Any]) -> Any:
    """What rank 0 of programs/horovod_all_reduce.py found with this framework."""
    if find_spec("horovod") is None:
        pytest.skip("Horovod is not installed")
    if find_spec("horovod.without_nccl") is not None:
        pytest.skip("this Horovod is compiled without NCCL, and the launcher refuses it on GPUs")
    framework = request.getfixturevalue(request.param)  # skips where there is none
    gpus = (
        framework.cuda.device_count()
        if request.param == "torch"
        else len(framework.config.list_physical_devices("GPU"))
    )
    options = ("-m", "horovod.runner.launch", "--gloo", "-np", str(gpus), sys.executable)
    return {**run_program("horovod_all_reduce.py", *options), "gpus": gpus}


def test_there_is_a_process_for_each_gpu(answer: Any) -> None:
    assert answer["size"] == answer["gpus"]


def test_a_tensor_on_a_gpu_is_summed_by_nccl(answer: Any) -> None:
    assert answer["nccl"] > 0
    assert "cuda" in answer["device"] or "GPU" in answer["device"]
    assert answer["sum"] == answer["size"] * (answer["size"] + 1) / 2


def test_several_tensors_at_once_are_scaled_by_horovods_own_kernels(answer: Any) -> None:
    """It joins small tensors into one and divides there: these are the kernels that the image compiled."""
    assert answer["averages"] == [number * (answer["size"] + 1) / 2 for number in range(1, 9)]
