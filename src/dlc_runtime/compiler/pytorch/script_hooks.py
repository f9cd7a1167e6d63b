"""Keeps hooks of the script outside of compiled graphs, and from seeing what is only compared."""

from __future__ import annotations

import functools

import torch

from dlc_runtime.compiler.source_locations import is_user_code, location_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Comparing:
    """Whether a way is being compared with eager: then the script's hooks are not called."""

    now = False


def describe_hook(hook: Any) -> str:
    """Return a hook's name with the line of the script that defines it."""
    file, line = location_of(hook)
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)} ({file}:{line})"


class UncompiledHook:
    """A user's hook, called outside the compiled graph: one that appends to a list would recompile in every step."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (self.hook,)


def make_uncompiled(hook: Callable[..., Any]) -> UncompiledHook:
    """Return the hook with a class and a `__call__` of its own, in which Dynamo looks at nothing.

    Dynamo counts recompilations by the code that it compiles: in a `__call__` of all hooks they would add up.
    """
    import torch._dynamo  # takes seconds

    reason = describe_hook(hook)

    def run(_outside: UncompiledHook, *arguments: Any, **named: Any) -> Any:
        return None if Comparing.now else hook(*arguments, **named)

    try:
        call_outside = torch._dynamo.disable(run, reason=reason)
    except TypeError:  # older than the reason
        call_outside = torch._dynamo.disable(run)
    found: UncompiledHook = type("UncompiledHook", (UncompiledHook,), {"__call__": call_outside})(hook)
    return found


def make_quiet(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook of a backward, which torch calls outside of compiled code, silent while ways are compared."""

    @functools.wraps(hook)
    def run(*arguments: Any) -> Any:
        return None if Comparing.now else hook(*arguments)

    run._dlc_quiet = True  # type: ignore[attr-defined]
    return run


def keep_hooks_uncompiled(module: torch.nn.Module) -> None:
    for part in module.modules():
        for hooks in (part._forward_pre_hooks, part._forward_hooks):
            for key, hook in list(hooks.items()):
                if not isinstance(hook, UncompiledHook) and is_user_code(location_of(hook)[0]):
                    hooks[key] = make_uncompiled(hook)
        for hooks in (part._backward_pre_hooks, part._backward_hooks):
            for key, hook in list(hooks.items()):
                if not hasattr(hook, "_dlc_quiet"):
                    hooks[key] = make_quiet(hook)
