"""Runs a module's calls in training the way that was chosen; everything else stays eager.

While a way is chosen by measuring it is compared with eager before its first step, and what fails in it runs eager in
its place, with the same random numbers, so no step is lost.
"""

from __future__ import annotations

import types
import weakref
import zlib

import torch

from dlc_runtime.compiler.pytorch import attention, torch_facts
from dlc_runtime.compiler.pytorch.comparison import (
    DifferentError,
    compare_with_eager,
    first_line,
    is_raised_by_script,
    measure_tf32,
)
from dlc_runtime.compiler.pytorch.module_selection import is_sharded
from dlc_runtime.compiler.pytorch.module_state import RandomState
from dlc_runtime.compiler.pytorch.ways import WAYS, repeated_blocks
from dlc_runtime.compiler.report.candidates import EAGER
from dlc_runtime.compiler.source_locations import find_create_graph_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, ClassVar

    from dlc_runtime.compiler.pytorch.ways import Way

    # Compiles a module's call for a way; the second is the name of its function.
    Compile = Callable[[torch.nn.Module, str, Way], Callable[..., Any]]

LOST_STEP = "only the script can repeat this step"
# Marks a gradient in memory of its own.
OWN = "_dlc_own"


class Dispatch:
    """Stands for one module's calls. State of the class is the process's: all modules run one way."""

    paused = False  # while new modules are watched
    way = WAYS[EAGER]
    choosing = False  # by measuring
    strict = False  # what fails ends the job
    # How often a step has ended.
    step = 0
    # With eager; the script's hooks are not called meanwhile.
    comparing = False
    # Why the way cannot be used; whoever chose it reads it after a step.
    failed = ""
    # Bytes of the device at the end of a forward, the most since it was set to 0.
    memory = 0
    # Hash of the shapes of a block's first call; 0 before it.
    shapes = 0
    # Way -> how its results were compared with eager's.
    compared: ClassVar[dict[str, str]] = {}
    every: ClassVar[weakref.WeakSet[Dispatch]] = weakref.WeakSet()

    def __init__(self, module: torch.nn.Module, name: str, compile_call: Compile) -> None:
        # A cycle would keep a deleted model's memory until the next collection.
        self._module = weakref.ref(module)
        self.name, self._compile = name, compile_call
        # The mode in which it is trained: some scripts train in eval().
        self._mode = module.training
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._accepted: set[str] = set()
        # The step in which parameters were last looked at.
        self._looked_at = -1
        Dispatch.every.add(self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        module = self._module()
        assert module is not None  # noqa: S101 - the module is calling
        way = Dispatch.way
        if not self._trains(module, arguments, named):
            return module._call_impl(*arguments, **named)
        output = (
            module._call_impl(*arguments, **named)
            if way.name == EAGER
            else self.attempt(way, module, module._call_impl, arguments, named)
        )
        if Dispatch.choosing and torch.cuda.is_initialized():
            Dispatch.memory = max(Dispatch.memory, torch.cuda.memory_allocated())
        return output

    def _trains(self, module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Tell whether a call is one of the training, and note its shapes if it is the first one of a block."""
        if must_be_eager() or module.training != self._mode or not torch.is_grad_enabled():
            return False
        if Dispatch.choosing and not Dispatch.shapes:
            shapes = [tuple(each.shape) for each in (*arguments, *named.values()) if isinstance(each, torch.Tensor)]
            Dispatch.shapes = zlib.crc32(repr(shapes).encode()) | 1
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled or copied module is an eager one, and needs nothing of ours to be read.
        return type(None), ()

    def attempt(
        self,
        way: Way,
        module: torch.nn.Module,
        eager: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """Run compiled code, or eager in its place if it fails or computes something else."""
        state = RandomState()
        attention.forget_mask()
        try:
            function = self._function(way, module)
            if way.reuses_memory and self._looked_at != Dispatch.step:
                self._looked_at = Dispatch.step
                refuse_hooked_parameters(module)
                own_gradients()
            if Dispatch.choosing and way.name not in self._accepted:
                self._take_in(way, module, eager, function, arguments, named)
            return function(module, *arguments, **named)
        except DifferentError as fault:
            reason = f"{self.name}: {fault}"
        except Exception as fault:
            if Dispatch.strict or is_raised_by_script(fault):
                raise
            reason = f"{self.name}: {type(fault).__name__}: {first_line(fault)}"
        # Here the fault's frames hold no tensor any more.
        if torch.cuda.is_initialized() and "out of memory" in reason:
            self.release(way.name)
            torch.cuda.empty_cache()
        state.restore()
        # The script's own exception is no fault of the way.
        output = run_eager(lambda: eager(*arguments, **named))
        Dispatch.failed, Dispatch.way = reason, WAYS[EAGER]
        return output

    def _take_in(
        self,
        way: Way,
        module: torch.nn.Module,
        eager: Callable[..., Any],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        why_not = reason_not_compared(module)
        in_eager = lambda: run_eager(lambda: eager(*arguments, **named))  # noqa: E731
        Dispatch.comparing = True
        try:
            Dispatch.compared[way.name] = why_not or compare_with_eager(
                module, in_eager, lambda: function(module, *arguments, **named)
            )
            if not why_not:
                torch_facts.note_tf32(lambda: measure_tf32(module, in_eager))
        finally:
            Dispatch.comparing = False
        self._accepted.add(way.name)

    def _function(self, way: Way, module: torch.nn.Module) -> Callable[..., Any]:
        if way.name not in self._compiled:
            blocks = repeated_blocks(module) if way.regional else []
            self._compiled[way.name] = (
                RegionalModule(self.name, blocks, way, self._compile)
                if blocks
                else self._compile(module, self.name, way)
            )
        return self._compiled[way.name]

    def release(self, way: str) -> None:
        """Let go of what was compiled for a way."""
        self._accepted.discard(way)
        held = self._compiled.pop(way, None)
        if isinstance(held, RegionalModule):
            held.remove()


class ForwardDispatch(Dispatch):
    """Runs a module's hooks as they are, and compiled code in place of its forward."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        module = self._module()
        assert module is not None  # noqa: S101 - the module is calling
        way = Dispatch.way
        eager = not self._trains(module, arguments, named) or way.name == EAGER
        if eager or "forward" in module.__dict__:
            return module._call_impl(*arguments, **named)
        module.__dict__["forward"] = lambda *given, **more: self.attempt(
            way, module, types.MethodType(type(module).forward, module), given, more
        )
        try:
            return module._call_impl(*arguments, **named)
        finally:
            del module.__dict__["forward"]


class RegionalModule:
    """A module of which each kind of repeated block is compiled once, and the rest runs eager."""

    def __init__(self, name: str, kinds: list[list[torch.nn.Module]], way: Way, compile_call: Compile) -> None:
        self._blocks = []
        for blocks in kinds:
            function = compile_call(blocks[0], f"{name}.{type(blocks[0]).__name__}", way)
            for block in blocks:
                block._compiled_call_impl = CompiledBlock(block, way, function)
                self._blocks.append(weakref.ref(block))

    def __call__(self, module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
        return module._call_impl(*arguments, **named)

    def remove(self) -> None:
        for reference in self._blocks:
            block = reference()
            if block is not None and isinstance(block._compiled_call_impl, CompiledBlock):
                block._compiled_call_impl = None


class CompiledBlock:
    def __init__(self, block: torch.nn.Module, way: Way, function: Callable[..., Any]) -> None:
        self._block, self._way, self._function = weakref.ref(block), way.name, function
        self._mode = block.training

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        block = self._block()
        assert block is not None  # noqa: S101 - the block is calling
        other = Dispatch.way.name != self._way or block.training != self._mode
        if must_be_eager() or other or not torch.is_grad_enabled():
            return block._call_impl(*arguments, **named)
        return self._function(block, *arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


is_symbolic_tracing = getattr(
    torch.fx._symbolic_trace, "is_fx_symbolic_tracing", torch.fx._symbolic_trace.is_fx_tracing
)


def must_be_eager() -> bool:
    return (
        torch.compiler.is_compiling()  # part of what the script compiles or exports
        or Dispatch.paused
        or torch.utils.data.get_worker_info() is not None  # a worker of a DataLoader has no time to compile
        or torch._C._get_tracing_state() is not None
        or is_symbolic_tracing()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0  # compiled code has no forward derivative
        or find_create_graph_around() != ""
    )


def run_eager(run: Callable[[], Any]) -> Any:
    """Call with all modules on eager: regions are parts of a module that calls them."""
    way, Dispatch.way = Dispatch.way, WAYS[EAGER]
    try:
        return run()
    finally:
        Dispatch.way = way


def reason_not_compared(module: torch.nn.Module) -> str:
    if is_sharded(module):
        return "not compared with eager: its parameters are sharded"
    return ""


def refuse_hooked_parameters(module: torch.nn.Module) -> None:
    """Raise if hooks see gradients before they can be copied."""
    if torch_facts.horovod_of_ranks() is not None:
        raise DifferentError("Horovod exchanges gradients in memory that the next step writes over")
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise DifferentError(f"a hook of {name} may keep a gradient, and the next step would write over it")


def own_gradients() -> None:
    """Copy new gradients out of memory that the next step writes over, before the script can keep them."""
    modules = [module for dispatch in list(Dispatch.every) if (module := dispatch._module()) is not None]
    fresh = [
        parameter
        for parameter in {parameter: None for module in modules for parameter in module.parameters()}
        if parameter.grad is not None and not hasattr(parameter.grad, OWN)
    ]
    gradients = [parameter.grad for parameter in fresh]
    # One kernel for all of them.
    at_once = fresh and all(type(each) is torch.Tensor and each.layout is torch.strided for each in gradients)
    copies = torch._foreach_mul(gradients, 1) if at_once else [each.clone() for each in gradients]
    for parameter, copy in zip(fresh, copies):
        setattr(copy, OWN, True)
        parameter.grad = copy
