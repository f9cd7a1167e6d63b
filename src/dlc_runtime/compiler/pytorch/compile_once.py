"""Lets one rank of a host compile a graph while the others wait, and load what it has compiled.

A rank waits before the graph runs, so no collective of the training is under way, and only for a rank that compiles the
same graph with inputs of the same shapes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

import torch

from dlc_runtime.compiler.cache.turn_lock import take_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Callable

    from torch.fx import GraphModule

# A large model compiles for minutes. The groups of torch.distributed wait longer: 30 minutes, 10 with NCCL.
LONGEST_SECONDS = 300.0
# What the ranks of one job on one host have in common.
JOB = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")

# How many ranks a host has, as torchrun, Horovod and Open MPI say it.
LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


class ForCache:
    """Whether this process compiles for the cache only, beside the training: its graphs run eager."""

    only = False


def compile_once(graph: GraphModule, inputs: Sequence[Any], settings: Any, compile_graph: Callable[[], Any]) -> Any:
    """Compile; if another rank compiles the same at this moment, wait for it before. `settings`: of the compiler."""
    if ForCache.only:
        with backward_at_once():
            compile_graph()
        return graph.forward
    if not has_other_ranks():
        return compile_graph()
    lock = os.path.join(inductor_folder(), f".turn-{graph_key(graph, inputs, settings)}")
    with backward_at_once(), take_turn(lock, LONGEST_SECONDS):
        return compile_graph()


def has_other_ranks() -> bool:
    """Tell whether other processes train with this one; ranks that a script spawns have no variables."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return bool(distributed.get_world_size() > 1)
    return any(os.environ.get(name, "1") != "1" for name in LOCAL_SIZES)


@contextlib.contextmanager
def backward_at_once() -> Iterator[None]:
    """Compile a backward with its forward, so that the cache has both before the lock is free.

    Torch would compile it in the first backward, in which ranks wait for each other.
    """
    import torch._functorch.config as functorch

    # In torch 2.6 the others find the forward only.
    named = {"force_non_lazy_backward_lowering": True}
    with functorch.patch(named) if all(hasattr(functorch, name) for name in named) else contextlib.nullcontext():
        yield


def inductor_folder() -> str:
    """Return the folder of inductor's cache, which the ranks of a host share."""
    from torch._inductor.codecache import cache_dir

    return str(cache_dir())


def graph_key(graph: GraphModule, inputs: Sequence[Any], settings: Any) -> str:
    """Return the same for ranks of one job that compile the same."""
    parts = [os.environ.get(name, "") for name in JOB]
    parts += [part.code for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
    parts += [describe_input(each) for each in inputs]
    return hashlib.sha256("\n".join([*parts, repr(settings)]).encode()).hexdigest()[:24]


def describe_input(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {value}"
    layout = value.stride() if value.layout is torch.strided else ()
    return f"{value.dtype} {value.device} {tuple(value.shape)} {layout} {value.requires_grad}"
