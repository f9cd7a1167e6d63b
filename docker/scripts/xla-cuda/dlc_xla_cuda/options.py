"""What XLA's GPU client is made with, from the variables of torchrun, torch_xla and the user; imports nothing of XLA.

The rules are those of the plug-in that torch_xla had of its own up to 2.8: its scripts run unchanged. The coordinator
is started by torch_xla itself, which reads ranks and sizes from the same variables in the same order.
"""

from collections.abc import Mapping
from typing import NamedTuple

Value = str | bool | int | float | list[int]
TRUTH = {"1": True, "true": True, "0": False, "false": False}


class World(NamedTuple):
    """This process among those of its host and of the job."""

    local_rank: int
    local_size: int
    rank: int
    size: int


def world(environ: Mapping[str, str]) -> World:
    """torch_xla's own spawn sets the PJRT variables, torchrun the others; a process that has neither is alone."""
    local_rank = _number(environ, 0, "PJRT_LOCAL_PROCESS_RANK", "LOCAL_RANK")
    local_size = _number(environ, 1, "PJRT_LOCAL_PROCESS_COUNT", "LOCAL_WORLD_SIZE")
    rank = _number(environ, local_rank, "RANK")
    return World(local_rank, local_size, rank, _number(environ, local_size, "WORLD_SIZE"))


def client_options(environ: Mapping[str, str]) -> dict[str, Value]:
    """Options by XLA's names for them (xla/pjrt/c/pjrt_c_api_gpu_internal.cc); XLA has a default for each other one."""
    place = world(environ)
    options: dict[str, Value] = {"platform_name": "cuda", "node_id": place.rank, "num_nodes": place.size}
    if place.local_size > 1:  # a process that is alone on its host takes all GPUs: SPMD needs them
        options["visible_devices"] = [place.local_rank]
    if _truth(environ, "PJRT_ALLOCATOR_CUDA_ASYNC"):
        options["allocator"] = "cuda_async"
    preallocate = _truth(environ, "PJRT_ALLOCATOR_PREALLOCATE")
    if preallocate is not None:
        options["preallocate"] = preallocate
    if environ.get("PJRT_ALLOCATOR_FRACTION"):
        options["memory_fraction"] = float(environ["PJRT_ALLOCATOR_FRACTION"])
    return options


def _number(environ: Mapping[str, str], default: int, *names: str) -> int:
    """The first of these variables that is set."""
    return next((int(environ[name]) for name in names if environ.get(name)), default)


def _truth(environ: Mapping[str, str], name: str) -> bool | None:
    """Nothing where the variable is not set."""
    text = environ.get(name)
    if not text:
        return None
    if text.lower() not in TRUTH:
        raise ValueError(f"{name}: expected 0 or 1, found {text!r}")
    return TRUTH[text.lower()]
