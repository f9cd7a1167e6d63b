"""Compiles a module in place: what the script holds stays the same object, with the same keys of its state_dict."""

from __future__ import annotations

import types

import torch
import torch._dynamo

from dlc_runtime.compiler.places import is_users, place_of
from dlc_runtime.compiler.pytorch.attention import Unmasked, masks_are_kept
from dlc_runtime.compiler.pytorch.choose import is_sharded
from dlc_runtime.compiler.pytorch.dispatch import Dispatch, InsideHooks
from dlc_runtime.compiler.pytorch.progress import followed
from dlc_runtime.compiler.pytorch.ways import INDUCTOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.pytorch.ways import Way
    from dlc_runtime.compiler.settings import Settings


COMPILED = "_compiled_call_impl"  # the attribute that torch calls in place of a module's forward and hooks


def call(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
    """What is compiled. Dynamo skips functions in torch's own files: a Sequential compiled alone would stay eager."""
    masks_are_kept()
    return module._call_impl(*arguments, **named)


def call_forward(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
    """What is compiled of a sharded module: its hooks gather and free its parameters, and stay around the graph."""
    masks_are_kept()
    return type(module).forward(module, *arguments, **named)


def compile_in_place(module: torch.nn.Module, name: str, settings: Settings) -> None:
    """From now on its calls in training run as `Dispatch.way` says."""
    move_hooks_out(module)
    spare_scripting()
    kind, what = (InsideHooks, call_forward) if is_sharded(module) else (Dispatch, call)

    def compile_call(_part: torch.nn.Module, name: str, way: Way) -> Callable[..., Any]:
        return compiled(name if way.name == INDUCTOR else f"{name}.{way.name}", settings, what, way)

    module._compiled_call_impl = kind(module, name, compile_call)


def compiled(name: str, settings: Settings, what: Any, way: Way) -> Callable[..., Any]:
    """Each module and way has a code object of its own: Dynamo counts recompilations by code object."""
    function = types.FunctionType(what.__code__.replace(co_name=name), what.__globals__, name)
    options = {"backend": Unmasked(settings.backend), "dynamic": settings.dynamic, **way.options}
    result: Callable[..., Any] = torch.compile(function, **options)
    return followed(result, name)


class HookOutside:
    """A user's hook, called outside the compiled graph: one that appends to a list would recompile in every step."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __reduce__(self) -> tuple[Any, ...]:
        from functools import partial

        return partial, (self.hook,)


def outside(hook: Callable[..., Any]) -> HookOutside:
    """Return the hook with a class and a `__call__` of its own, in which Dynamo looks at nothing.

    Dynamo counts recompilations by the code that it compiles: in a `__call__` of all hooks they would add up.
    """
    file, line = place_of(hook)
    reason = f"hook {getattr(hook, '__qualname__', type(hook).__name__)} ({file}:{line})"

    def run(_outside: HookOutside, *arguments: Any, **named: Any) -> Any:
        return hook(*arguments, **named)

    try:
        call_outside = torch._dynamo.disable(run, reason=reason)
    except TypeError:  # older than the reason
        call_outside = torch._dynamo.disable(run)
    found: HookOutside = type("HookOutside", (HookOutside,), {"__call__": call_outside})(hook)
    return found


def move_hooks_out(module: torch.nn.Module) -> None:
    for part in module.modules():
        for hooks in (part._forward_pre_hooks, part._forward_hooks):
            for key, hook in list(hooks.items()):
                if not isinstance(hook, HookOutside) and is_users(place_of(hook)[0]):
                    hooks[key] = outside(hook)


def spare_scripting() -> None:
    """Let torch.jit.script leave out what compiles a module: it reads each attribute, and refuses an object of ours."""
    ignored = torch.jit._recursive.ignored_attributes
    if COMPILED not in ignored:
        ignored.append(COMPILED)
