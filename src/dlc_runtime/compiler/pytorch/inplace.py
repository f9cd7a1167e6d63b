"""Compiles a module in place: what the script holds stays the same object, with the same keys of its state_dict."""

from __future__ import annotations

import types
import weakref

import torch
import torch._dynamo

from dlc_runtime.compiler.base.places import is_users, place_of
from dlc_runtime.compiler.pytorch.choose import is_sharded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.base.settings import Settings


def call(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
    """What is compiled. Dynamo skips functions in torch's own files: a Sequential compiled alone would stay eager."""
    return module._call_impl(*arguments, **named)


def call_forward(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
    """What is compiled of a sharded module: its hooks gather and free its parameters, and stay around the graph."""
    return type(module).forward(module, *arguments, **named)


class Dispatch:
    """Takes a module's calls: to compiled code, or to the eager one where compiled code cannot run."""

    paused = False  # of all modules, while new ones are watched

    def __init__(self, module: torch.nn.Module, training: Callable[..., Any], other: Callable[..., Any]) -> None:
        self._module = weakref.ref(module)  # a cycle would keep a deleted model's memory until the next collection
        self._training = training
        self._other = other

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        module = self._module()
        assert module is not None  # noqa: S101 - the module is calling
        if must_be_eager():
            return module._call_impl(*arguments, **named)
        compiled = self._training if module.training and torch.is_grad_enabled() else self._other
        return compiled(module, *arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a pickled or copied module is an eager one, and needs nothing of ours to be read


is_symbolic_tracing = getattr(
    torch.fx._symbolic_trace, "is_fx_symbolic_tracing", torch.fx._symbolic_trace.is_fx_tracing
)


class InsideHooks(Dispatch):
    """Runs a module's hooks as they are, and compiled code in place of its forward."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        module = self._module()
        assert module is not None  # noqa: S101 - the module is calling
        if must_be_eager() or "forward" in module.__dict__:
            return module._call_impl(*arguments, **named)
        compiled = self._training if module.training and torch.is_grad_enabled() else self._other
        module.__dict__["forward"] = types.MethodType(compiled, module)
        try:
            return module._call_impl(*arguments, **named)
        finally:
            del module.__dict__["forward"]


def must_be_eager() -> bool:
    return (
        torch.compiler.is_compiling()  # part of what the script compiles or exports
        or Dispatch.paused
        or torch.utils.data.get_worker_info() is not None  # a worker of a DataLoader has no time to compile
        or torch._C._get_tracing_state() is not None
        or is_symbolic_tracing()
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def compile_in_place(module: torch.nn.Module, name: str, settings: Settings) -> None:
    """Training and the rest are two functions: generating many lengths must not use up training's recompilations."""
    move_hooks_out(module)
    kind, what = (InsideHooks, call_forward) if is_sharded(module) else (Dispatch, call)
    module._compiled_call_impl = kind(module, compiled(name, settings, what), compiled(f"{name}.eval", settings, what))


def compiled(name: str, settings: Settings, what: Any = call) -> Callable[..., Any]:
    """Each module has a code object of its own: Dynamo counts recompilations by code object."""
    function = types.FunctionType(what.__code__.replace(co_name=name), what.__globals__, name)
    result: Callable[..., Any] = torch.compile(function, backend=settings.backend, dynamic=settings.dynamic)
    return result


class HookOutside:
    """A user's hook, called outside the compiled graph: one that appends to a list would recompile in every step."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        file, line = place_of(hook)
        reason = f"hook {getattr(hook, '__qualname__', type(hook).__name__)} ({file}:{line})"

        def run(*arguments: Any, **named: Any) -> Any:
            return hook(*arguments, **named)

        self.hook = hook
        try:
            self.run = torch._dynamo.disable(run, reason=reason)
        except TypeError:  # older than the reason
            self.run = torch._dynamo.disable(run)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.run(*arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        from functools import partial

        return partial, (self.hook,)


def move_hooks_out(module: torch.nn.Module) -> None:
    for part in module.modules():
        for hooks in (part._forward_pre_hooks, part._forward_hooks):
            for key, hook in list(hooks.items()):
                if not isinstance(hook, HookOutside) and is_users(place_of(hook)[0]):
                    hooks[key] = HookOutside(hook)
