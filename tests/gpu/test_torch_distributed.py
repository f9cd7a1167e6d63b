"""NCCL over all GPUs of the host, a process each: its collectives, and the gradients that PyTorch averages by them."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

import pytest


@pytest.fixture(scope="module")
def answer(torch: ModuleType, run_program: Callable[..., Any]) -> Any:
    """What rank 0 of programs/all_reduce.py found; the world is as large as the host has GPUs."""
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        pytest.skip(f"PyTorch {torch.__version__} is built without NCCL")
    processes = torch.cuda.device_count()
    return run_program("all_reduce.py", "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}")


def test_there_is_a_process_for_each_gpu(torch: ModuleType, answer: Any) -> None:
    assert answer["world"] == torch.cuda.device_count()


def test_all_reduce_sums_over_all_gpus(answer: Any) -> None:
    assert answer["all_reduce"] == [answer["world"] * (answer["world"] + 1) / 2]


def test_broadcast_and_all_gather_reach_every_gpu(answer: Any) -> None:
    assert answer["broadcast"] == [answer["world"] - 1]
    assert answer["all_gather"] == list(range(answer["world"]))


def test_gradients_are_averaged_over_all_gpus(answer: Any) -> None:
    if answer["world"] == 1:
        pytest.skip("one GPU only: nothing to average over")
    assert answer["gradient"] == [(answer["world"] + 1) / 2]
