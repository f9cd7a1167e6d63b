"""The ways in which a training's steps can run, and which of them a job tries."""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import NamedTuple

import torch

from dlc_runtime.compiler import settings as settings_of
from dlc_runtime.compiler.choosing.candidates import EAGER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dlc_runtime.compiler.settings import Settings

INDUCTOR, CUDA_GRAPHS, REGIONAL, MAX = "inductor", "cuda-graphs", "regional", "max"
# Blocks alike up to here are compiled with the rest.
MOST_UNIQUE = 3


class Way(NamedTuple):
    name: str
    # Options of torch.compile, beside backend and dynamic.
    options: Mapping[str, Any] = MappingProxyType({})
    # Each kind of repeated block is compiled once, and the rest runs eager.
    regional: bool = False
    # The next call writes over what a call returned.
    reuses_memory: bool = False


WAYS = {
    EAGER: Way(EAGER),
    INDUCTOR: Way(INDUCTOR),
    CUDA_GRAPHS: Way(CUDA_GRAPHS, MappingProxyType({"mode": "reduce-overhead"}), reuses_memory=True),
    REGIONAL: Way(REGIONAL, regional=True),
    MAX: Way(MAX, MappingProxyType({"mode": "max-autotune-no-cudagraphs"})),
}
# What is tried on each kind of device, in this order.
TRIED = {"cpu": (REGIONAL, INDUCTOR), "cuda": (INDUCTOR, CUDA_GRAPHS, REGIONAL)}


def requested_way(settings: Settings) -> Way | None:
    """Return the way that the job asks for; None if it is chosen by measuring."""
    if settings.mode == settings_of.AUTO:
        return None
    return WAYS[INDUCTOR if settings.mode == settings_of.DEFAULT else settings.mode]


def ways_to_try(settings: Settings, modules: Iterable[torch.nn.Module]) -> list[str]:
    held = list(modules)
    devices = {parameter.device.type for module in held for parameter in module.parameters()}
    names = list(TRIED["cuda" if "cuda" in devices else "cpu"])
    if settings.effort == settings_of.MOST:
        names.append(MAX)
    if not any(repeated_blocks(module) for module in held):
        names = [name for name in names if not WAYS[name].regional]
    return names


def repeated_blocks(module: torch.nn.Module) -> list[list[torch.nn.Module]]:
    """Return the outermost blocks of several layers that occur more than MOST_UNIQUE times, by kind."""
    if not shares_code():
        return []
    found: dict[tuple[Any, ...], list[torch.nn.Module]] = defaultdict(list)
    for container in module.modules():
        for block in container if isinstance(container, (torch.nn.ModuleList, torch.nn.Sequential)) else ():
            if sum(1 for part in block.modules() if has_parameters(part)) > 1:
                found[block_kind(block)].append(block)
    kinds = [blocks for blocks in found.values() if len(blocks) > MOST_UNIQUE]
    inner = {id(part) for blocks in kinds for block in blocks for part in block.modules() if part is not block}
    return [blocks for blocks in kinds if id(blocks[0]) not in inner]


def block_kind(block: torch.nn.Module) -> tuple[Any, ...]:
    return type(block), *((name, tuple(value.shape), value.dtype) for name, value in block.named_parameters())


def has_parameters(module: torch.nn.Module) -> bool:
    return next(module.parameters(recurse=False), None) is not None


def shares_code() -> bool:
    """Tell whether one graph serves all modules of a kind: before torch 2.5 each was compiled for itself."""
    return bool(torch.__version__ >= (2, 5))  # a TorchVersion
