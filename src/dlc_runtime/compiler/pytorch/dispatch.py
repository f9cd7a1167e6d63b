"""Runs a module's calls in training the way that was chosen; everything else stays eager.

Each graph and each shape is compared with eager before it counts, and again in sampled steps. What differs or fails
runs eager in its place, with the same random numbers, so no step is lost.
"""

from __future__ import annotations

import contextlib
import functools
import time
import types
import weakref
import zlib

import torch

from dlc_runtime.compiler.choosing.candidates import EAGER
from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.pytorch import attention, torch_facts
from dlc_runtime.compiler.pytorch.checks import Checked, signature_of
from dlc_runtime.compiler.pytorch.comparison import (
    compare_with_eager,
    first_line,
    is_raised_by_script,
    measure_tf32,
)
from dlc_runtime.compiler.pytorch.differences import DifferentError, NotComparedError
from dlc_runtime.compiler.pytorch.gradient_memory import own_gradients, refuse_hooked_parameters
from dlc_runtime.compiler.pytorch.module_state import ModuleState, RandomState
from dlc_runtime.compiler.pytorch.script_hooks import Comparing, keep_hooks_uncompiled
from dlc_runtime.compiler.pytorch.ways import WAYS, repeated_blocks
from dlc_runtime.compiler.settings import StrictError
from dlc_runtime.compiler.source_locations import find_create_graph_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable, ClassVar

    from dlc_runtime.compiler.pytorch.ways import Way

    # Compiles a module's call for a way; the second is the name of its function.
    Compile = Callable[[torch.nn.Module, str, Way], Callable[..., Any]]

LOST_STEP = "only the script can repeat this step"
USE_UNCHECKED = "DLC_COMPILER_UNCHECKED=1 uses it all the same"


class Dispatch:
    """Stands for one module's calls. State of the class is the process's: all modules run one way."""

    paused = False  # while new modules are watched
    way = WAYS[EAGER]
    choosing = False  # by measuring
    strict = False  # what fails ends the job
    # How often a step has ended.
    step = 0
    # What cannot be compared is used.
    unchecked = False
    # In this step each module is compared again.
    sampling = False
    # Of comparing, so far.
    comparing_seconds = 0.0
    # Compilations that have begun, and what a module held when the first of its call did.
    compilations = 0
    calling: ClassVar[Call | None] = None
    # A difference of a way that trained before, in words; the session tells it.
    found_late = ""
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
        self._checked: dict[str, Checked] = {}
        self._sampled_at = -1
        # Its forward exchanges something with other ranks.
        self._talks = False
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
        call = Call(module, eager, arguments, named)
        checked, is_sample = self._checked.setdefault(way.name, Checked()), False
        try:
            function = self._function(way, module)
            if way.reuses_memory and self._looked_at != Dispatch.step:
                self._looked_at = Dispatch.step
                refuse_hooked_parameters(module)
                own_gradients(living_modules())
            signature = signature_of((arguments, named))
            if self._talks and checked.shapes and checked.is_open(signature) and not Dispatch.sampling:
                # The other ranks would not take part in comparing.
                return run_eager(call.run_eager)
            if checked.is_open(signature) or (Dispatch.sampling and self._sampled_at != Dispatch.step):
                is_sample = not checked.is_open(signature)
                self._compare(way, call, function, signature)
            begun, Dispatch.calling = Dispatch.compilations, call
            try:
                output = function(module, *arguments, **named)
            finally:
                Dispatch.calling = None
            if Dispatch.compilations != begun:
                # A new graph for shapes that were compared; no step has used it.
                is_sample = False
                self._compare(way, call, function, signature)
            return output
        except (DifferentError, NotComparedError) as fault:
            reason = self._refuse(fault, checked, is_sample)
        except Exception as fault:
            if Dispatch.strict or is_raised_by_script(fault):
                raise
            reason = f"{self.name}: {type(fault).__name__}: {first_line(fault)}"
        # Here the fault's frames hold no tensor any more.
        if torch.cuda.is_initialized() and "out of memory" in reason:
            self.release(way.name)
            torch.cuda.empty_cache()
        call.restore()
        state.restore()
        # The script's own exception is no fault of the way.
        output = run_eager(call.run_eager)
        Dispatch.failed, Dispatch.way = reason, WAYS[EAGER]
        return output

    def _refuse(self, fault: Exception, checked: Checked, is_sample: bool) -> str:
        """Return why the way is left; in a strict job that ends it, unless others are still to be tried."""
        if isinstance(fault, NotComparedError):
            reason = f"{self.name} cannot be compared with eager: {fault}; {USE_UNCHECKED}"
        else:
            reason = f"{self.name}: {fault}"
        if checked.last and is_sample:
            reason += f"; it was as eager in step {checked.last}"
            if Dispatch.step > checked.last:
                reason += f"; steps {checked.last + 1} to {Dispatch.step} were trained with it"
        if checked.last:
            Dispatch.found_late = reason
        if Dispatch.strict and (checked.last or not Dispatch.choosing):
            raise StrictError(f"DLC_COMPILER_STRICT=1: {reason}") from None
        return reason

    def _compare(self, way: Way, call: Call, function: Callable[..., Any], signature: Any) -> None:
        """Compare a call with eager; raise if it differs, or cannot be compared in a job that wants it so."""
        checked = self._checked[way.name]
        self._sampled_at = Dispatch.step
        begun, Comparing.now = time.perf_counter(), True
        try:
            # Hooks that came late.
            keep_hooks_uncompiled(call.module)
            if not checked.last:
                self._talks = talks_to_ranks(call.module)
            text = compare_with_eager(
                call.module,
                call.run_eager,
                lambda: function(call.module, *call.arguments, **call.named),
                (call.arguments, call.named),
                running_eager,
                self._talks,
            )
            if not checked.last:
                torch_facts.note_tf32(lambda: measure_tf32(call.module, lambda: run_eager(call.run_eager)))
        except NotComparedError as fault:
            if not Dispatch.unchecked:
                raise
            text = f"not compared with eager, and used (DLC_COMPILER_UNCHECKED=1): {fault}"
            if not checked.last:
                log(f"{self.name}: {text}")
        finally:
            Comparing.now = False
            Dispatch.comparing_seconds += time.perf_counter() - begun
        checked.note(signature, text, Dispatch.step + 1)
        tell_what_was_compared(way.name)

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
        held = self._compiled.pop(way, None)
        if isinstance(held, RegionalModule):
            held.remove()


class Call:
    """One call of a module; it knows what the module held before, if something was compiled for it."""

    def __init__(
        self, module: torch.nn.Module, eager: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.module, self._eager, self.arguments, self.named = module, eager, arguments, named
        self._state: ModuleState | None = None

    def run_eager(self) -> Any:
        return self._eager(*self.arguments, **self.named)

    def keep(self) -> None:
        self._state = self._state or ModuleState(self.module)

    def restore(self) -> None:
        if self._state is not None:
            self._state.restore()


def note_compilation(*_arguments: Any) -> None:
    """Called before something is compiled: what a new graph writes wrongly can be put back."""
    Dispatch.compilations += 1
    if Dispatch.calling is not None:
        Dispatch.calling.keep()


@functools.cache
def watch_compilations() -> None:
    """Be told of each compilation, from now on."""
    from dlc_runtime.compiler.pytorch.dynamo import listen_to_compiling

    listen_to_compiling(note_compilation, lambda *_: None)


def tell_what_was_compared(way: str) -> None:
    known = {each.name: each._checked[way].words() for each in Dispatch.every if way in each._checked}
    known = {name: text for name, text in known.items() if text}
    if len(known) == 1:
        Dispatch.compared[way] = next(iter(known.values()))
    else:
        Dispatch.compared[way] = "; ".join(f"{name}: {text}" for name, text in sorted(known.items()))


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


@contextlib.contextmanager
def running_eager() -> Iterator[None]:
    """Have all modules run eager: regions are parts of a module that calls them, a checkpoint calls it again."""
    way, Dispatch.way = Dispatch.way, WAYS[EAGER]
    try:
        yield
    finally:
        Dispatch.way = way


def run_eager(run: Callable[[], Any]) -> Any:
    with running_eager():
        return run()


def talks_to_ranks(module: torch.nn.Module) -> bool:
    """Tell whether a forward waits for other ranks: then they all have to take part in comparing it."""
    return any("SyncBatchNorm" in kind.__name__ for part in module.modules() for kind in type(part).__mro__)


def living_modules() -> list[torch.nn.Module]:
    return [module for dispatch in list(Dispatch.every) if (module := dispatch._module()) is not None]
