"""Decides which modules are compiled, and says of every other trained one why it stays eager."""

from __future__ import annotations

import sys

import torch

from dlc_runtime.compiler.base.places import calls_create_graph, class_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dlc_runtime.compiler.pytorch.watch import Root, Watch

RECURRENT = (torch.nn.RNNBase, torch.nn.RNNCellBase)


class Stays:
    """A module that stays eager."""

    def __init__(self, module: torch.nn.Module, reason: str, remedy: str = "", wanted: bool = True) -> None:
        self.module = class_name(module)
        self.reason = reason
        self.remedy = remedy
        self.wanted = wanted  # strict mode fails on it


class Choice:
    def __init__(self) -> None:
        self.chosen: list[torch.nn.Module] = []
        self.stays: list[Stays] = []
        self.wrappers: list[torch.nn.Module] = []  # DistributedDataParallel around what is chosen

    def wrap(self, module: torch.nn.Module) -> None:
        if module is not unwrapped(module):
            self.wrappers.append(module)


def choose(watch: Watch) -> Choice:
    choice = Choice()
    places = calls_create_graph()
    seen = sum(root.twice for root in watch.roots.values())
    differentiated_later = places[0] if len(places) > seen else ""  # else each was seen, with its module
    for root in watch.roots.values():
        if next(root.module.parameters(), None) is None:
            continue  # a loss function
        if is_ours(unwrapped(root.module)):
            continue  # compiled before, by the process that this one was forked from
        stays = why_eager(root, watch, differentiated_later)
        if stays:
            choice.stays.append(stays)
        else:
            choice.wrap(root.module)
            compilable(unwrapped(root.module), choice)
    return choice


def why_eager(root: Root, watch: Watch, differentiated_later: str) -> Stays | None:
    module = root.module
    if not watch.trained(module):
        return Stays(module, "the script does not train it: no optimizer has its parameters", wanted=False)
    if not root.with_gradients:
        return Stays(module, "called without gradients only", wanted=False)
    if root.twice:
        return Stays(module, "the script differentiates its backward (create_graph=True), which cannot be compiled")
    if differentiated_later:
        return Stays(
            module,
            f"{differentiated_later} uses create_graph=True, which a compiled module cannot do",
            "remove that call, or compile the parts it does not reach with dlc_runtime.compiler.prepare",
        )
    return unfit(module)


def unfit(module: torch.nn.Module) -> Stays | None:
    """Why a module cannot be compiled, whatever the script does with it."""
    if not hasattr(getattr(torch, "compiler", None), "is_compiling"):
        return Stays(module, f"torch {torch.__version__} cannot compile a module in place", "use torch 2.3 or newer")
    if any(compiled_by_the_script(part) for part in module.modules()):
        return Stays(module, "the script compiles it itself", wanted=False)
    if isinstance(module, torch.nn.DataParallel):
        return Stays(module, "DataParallel copies it in every step", "use DistributedDataParallel")
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        return Stays(module, "it is TorchScript", "train the module it was scripted from")
    if any(parameter.device.type in ("xla", "meta") for parameter in module.parameters()):
        return Stays(module, "it is not on a device that inductor compiles for")
    return None


def compiled_by_the_script(module: torch.nn.Module) -> bool:
    if module.__dict__.get("_compiled_call_impl") is not None and not is_ours(module):
        return True
    frames = sys.modules.get("torch._dynamo.eval_frame")  # not imported: nothing was compiled
    return frames is not None and isinstance(module, frames.OptimizedModule)


def is_ours(module: torch.nn.Module) -> bool:
    return type(module.__dict__.get("_compiled_call_impl")).__module__.startswith("dlc_runtime.")


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """DistributedDataParallel runs its module itself, with Dynamo told about its buckets."""
    while isinstance(module, torch.nn.parallel.DistributedDataParallel):
        module = module.module
    return module


def compilable(module: torch.nn.Module, choice: Choice) -> None:
    """The module; or, where it cannot be one graph, its largest parts that can."""
    found = [module] if is_whole(module) else list(pieces(module))
    choice.chosen.extend(found)
    recurrent = {class_name(part) for part in module.modules() if isinstance(part, RECURRENT)}
    if recurrent:
        rest = f"; compiled: {', '.join(class_name(part) for part in found)}" if found else ""
        choice.stays.append(Stays(module, f"Dynamo does not trace {', '.join(sorted(recurrent))}{rest}"))


def is_whole(module: torch.nn.Module) -> bool:
    """Dynamo traces no recurrent layer, and breaks the graph at the hooks of each sharded part."""
    parts = list(module.modules())
    return not any(isinstance(part, RECURRENT) for part in parts) and not any(is_sharded(part) for part in parts[1:])


def is_sharded(module: torch.nn.Module) -> bool:
    """By fully_shard, whose class was in several places."""
    return any(base.__name__ == "FSDPModule" for base in type(module).__mro__)


def pieces(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    if not is_whole(module):
        for child in module.children() if not isinstance(module, RECURRENT) else ():
            yield from pieces(child)
    elif is_sharded(module) or sum(1 for _ in trained_parts(module.modules())) > 1:  # one layer alone gains nothing
        yield module


def trained_parts(parts: Iterable[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    return (part for part in parts if any(p.requires_grad for p in part.parameters(recurse=False)))
