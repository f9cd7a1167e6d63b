"""Compiles modules and fuses optimizers' steps in place: the script's objects and the keys of state_dict stay."""

from __future__ import annotations

import functools
import inspect
import time
import types
import weakref

import torch
from torch.optim import SGD, Adam, AdamW

from dlc_runtime.compiler.choosing.candidates import EAGER
from dlc_runtime.compiler.choosing.verdict import FASTER, FEWEST_PAIRS, Pair, judge
from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.pytorch.agreement import process_group
from dlc_runtime.compiler.pytorch.attention import UnmaskedBackend
from dlc_runtime.compiler.pytorch.comparison import (
    copy_optimizer,
    first_line,
    is_of_compiled_code,
    largest_difference,
    state_bytes,
    state_tensors,
)
from dlc_runtime.compiler.pytorch.dispatch import LOST_STEP, Dispatch, ForwardDispatch, living_modules
from dlc_runtime.compiler.pytorch.gradient_memory import own_gradients
from dlc_runtime.compiler.pytorch.module_selection import is_sharded
from dlc_runtime.compiler.pytorch.progress import with_progress
from dlc_runtime.compiler.pytorch.script_hooks import Comparing, keep_hooks_uncompiled
from dlc_runtime.compiler.pytorch.torch_facts import horovod_of_ranks
from dlc_runtime.compiler.pytorch.ways import INDUCTOR, WAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable, ClassVar

    from dlc_runtime.compiler.pytorch.ways import Way
    from dlc_runtime.compiler.settings import Settings


# The attribute that torch calls in place of a module's forward and hooks.
COMPILED = "_compiled_call_impl"
# Steps in a row that may end while a backward is to come.
MOST_HELD_STEPS = 32
# Attributes that a function of ours copies from the function that it replaces.
NAMED = ("__name__", "__qualname__", "__doc__")


def call(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
    """Call a module; this is compiled. Dynamo skips torch's own files: a Sequential compiled alone would stay eager."""
    return module._call_impl(*arguments, **named)


def call_forward(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
    """Call a sharded module's forward; this is compiled. Its hooks gather and free parameters around the graph."""
    return type(module).forward(module, *arguments, **named)


def compile_in_place(module: torch.nn.Module, name: str, settings: Settings) -> None:
    """Let the module's calls in training run as `Dispatch.way` says."""
    keep_hooks_uncompiled(module)
    hide_from_scripting()
    watch_backward()
    kind, what = (ForwardDispatch, call_forward) if is_sharded(module) else (Dispatch, call)

    def compile_call(_part: torch.nn.Module, name: str, way: Way) -> Callable[..., Any]:
        return compile_way(name if way.name == INDUCTOR else f"{name}.{way.name}", settings, what, way)

    module._compiled_call_impl = kind(module, name, compile_call)


def compile_way(name: str, settings: Settings, what: Any, way: Way) -> Callable[..., Any]:
    """Compile with a code object of its own: Dynamo counts recompilations by code object."""
    function = types.FunctionType(what.__code__.replace(co_name=name), what.__globals__, name)
    options = {"backend": settings.backend, "dynamic": settings.dynamic, **way.options}
    backend = (CopyingBackend if way.reuses_memory else UnmaskedBackend)(options["backend"])
    result: Callable[..., Any] = torch.compile(function, **{**options, "backend": backend})
    return with_progress(result, name)


class CopyingBackend(UnmaskedBackend):
    """For graphs that write over what they returned before: copies leave them, of outputs and of gradients.

    So nothing changes that a script keeps of them: what a call returned, an attribute, a list, what a hook was given.
    """

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        compiled = super().__call__(*arguments, **named)

        def run(*inputs: Any) -> list[Any]:
            call = GraphCall()
            return [
                LeavingOutput.apply(output, call) if isinstance(output, torch.Tensor) else output
                for output in compiled(*map(with_own_gradient, inputs))
            ]

        return run


class GraphCall:
    """Stands for one call of a graph, as long as one of its outputs may begin its backward."""

    # Those whose backward has not begun.
    waiting: ClassVar[weakref.WeakSet[GraphCall]] = weakref.WeakSet()
    # Steps in a row that ended before it had.
    held_steps = 0


class LeavingOutput(torch.autograd.Function):  # type: ignore[misc] # torch is not there to be looked at
    """Copies a graph's output, and notes when the backward of its call begins."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, call: GraphCall) -> torch.Tensor:
        context.call = call
        if context.needs_input_grad[0]:
            GraphCall.waiting.add(call)
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        GraphCall.waiting.discard(context.call)
        return gradient, None


def begin_step_of_graphs() -> None:
    """Let graphs write over what they hold, but not before a backward that needs it.

    A GAN's discriminator steps between the generator's forward and its backward. Steps that never give anything away
    would take more memory each: a script that keeps results for such a backward gets another way.
    """
    GraphCall.held_steps = GraphCall.held_steps + 1 if GraphCall.waiting else 0
    if not GraphCall.held_steps:
        torch.compiler.cudagraph_mark_step_begin()
    elif GraphCall.held_steps >= MOST_HELD_STEPS:
        GraphCall.held_steps = 0
        Dispatch.failed = f"for {MOST_HELD_STEPS} steps the script kept results whose backward did not come"
        Dispatch.way = WAYS[EAGER]


class OwnGradient(torch.autograd.Function):  # type: ignore[misc] # torch is not there to be looked at
    """Copies the gradient of a graph's input."""

    @staticmethod
    def forward(_context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone()


def with_own_gradient(value: Any) -> Any:
    """Return a graph's input so that its gradient is copied; those of parameters are when the backward has ended."""
    if isinstance(value, torch.Tensor) and value.requires_grad and not isinstance(value, torch.nn.Parameter):
        return OwnGradient.apply(value)
    return value


def hide_from_scripting() -> None:
    """Let torch.jit.script leave out what compiles a module: it reads each attribute, and refuses an object of ours."""
    ignored = torch.jit._recursive.ignored_attributes
    if COMPILED not in ignored:
        ignored.append(COMPILED)


def watch_backward() -> None:
    """Copy gradients that a way would write over; have one that is chosen by measuring given up if a backward raises.

    The exception stays the script's: parts of the step's graph are freed then, so nobody but the script can repeat it.
    """
    original, find = torch.autograd.backward, torch.autograd.grad
    if original.__module__ == __name__:
        return

    @functools.wraps(original, assigned=NAMED)
    def backward(*arguments: Any, **named: Any) -> Any:
        try:
            original(*arguments, **named)
        except Exception as fault:
            note_failed_backward(fault)
            raise
        if Dispatch.way.reuses_memory:
            try:
                own_gradients(living_modules())
            except Exception as fault:
                # No memory for copies: eager steps leave the gradients where they are.
                Dispatch.failed = f"its gradients could not be copied: {type(fault).__name__}: {first_line(fault)}"
                Dispatch.way = WAYS[EAGER]

    @functools.wraps(find, assigned=NAMED)
    def grad(*arguments: Any, **named: Any) -> Any:
        found = find(*arguments, **named)
        if not Dispatch.way.reuses_memory:
            return found
        return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in found)

    torch.autograd.backward, torch.autograd.grad = backward, grad
    # torch.jit.script knows both by identity, and would read the code of another function.
    scripted = torch.jit._builtins._get_builtin_table()
    for ours, own in ((backward, original), (grad, find)):
        if id(own) in scripted:
            scripted[id(ours)] = scripted[id(own)]


def note_failed_backward(fault: Exception) -> None:
    way, is_memory = Dispatch.way.name, "out of memory" in str(fault)
    if Comparing.now or not Dispatch.choosing or way == EAGER or not (is_memory or is_of_compiled_code(fault)):
        return
    Dispatch.failed = f"its backward raised {type(fault).__name__}: {first_line(fault)}: {LOST_STEP}"
    Dispatch.way = WAYS[EAGER]
    log(f"{way}: {Dispatch.failed}")


# Torch has a fused step of these on CPUs.
FUSED = (SGD, Adam, AdamW)
# It counts as True for torch; `is` tells it from a True that the script has set.
OURS = 1
# Share of a tensor's largest value, after one step.
FUSED_TOLERANCE = 1e-5
MOST_PAIRS, TRIAL_SECONDS = 12, 1.0
MOST_BYTES = 1 << 30  # to copy


def fuse_steps(optimizers: Iterable[torch.optim.Optimizer], notes: list[str]) -> None:
    """Let optimizers step with torch's fused kernels if the script left it open and that is faster.

    Only of a process that trains alone: ranks that round differently drift apart. Adds to `notes`.
    """
    if torch.__version__ < (2, 4) or process_group() is not None or horovod_of_ranks() is not None:  # a TorchVersion
        return
    for optimizer in optimizers:
        if may_fuse(optimizer) and state_bytes(optimizer) <= MOST_BYTES:
            notes.append(f"{type(optimizer).__name__}: fused steps {try_fused(optimizer)}")
            log(notes[-1])


def may_fuse(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether the script left it open, and all tensors are contiguous as the kernels read them."""
    if type(optimizer) not in FUSED or not all(map(leaves_fused_open, optimizer.param_groups)):
        return False
    tensors = state_tensors(optimizer)
    return bool(tensors) and all(
        value.layout is torch.strided and value.is_cpu and value.is_floating_point() and value.is_contiguous()
        for value in tensors
    )


def leaves_fused_open(group: dict[str, Any]) -> bool:
    said = group["fused"], group["foreach"], group["differentiable"], group.get("capturable", False)
    return said == (None, None, False, False) and not isinstance(group["lr"], torch.Tensor)


def try_fused(optimizer: torch.optim.Optimizer) -> str:
    """Measure steps of copies in turns; return the outcome in words."""
    own, fused = copy_optimizer(optimizer), copy_optimizer(optimizer)
    time_step(own, False), time_step(fused, True)
    differs = max(map(largest_difference, state_tensors(own), state_tensors(fused)))
    if differs > FUSED_TOLERANCE:
        return f"are not used, they differ by {differs:.1g} ({FUSED_TOLERANCE:g} is allowed)"
    times: list[Pair] = []
    end = time.perf_counter() + TRIAL_SECONDS
    while len(times) < FEWEST_PAIRS or (len(times) < MOST_PAIRS and time.perf_counter() < end):
        times.append(Pair(time_step(own, False), time_step(fused, True)))
    verdict = judge(times)
    if verdict.kind != FASTER:
        return f"are not used: {verdict.words()}"
    optimizer.register_step_pre_hook(begin_fused)
    optimizer.register_step_post_hook(end_fused)
    return f"are used: {verdict.words()} as its own, results within {differs:.1g} (DLC_COMPILER_OPTIMIZER)"


def time_step(optimizer: torch.optim.Optimizer, fused: bool) -> float:
    """Step without the hooks of all optimizers: nobody may count it."""
    begun = time.perf_counter()
    if fused:
        begin_fused(optimizer)
    inspect.unwrap(type(optimizer).step, stop=lambda step: not hasattr(step, "hooked"))(optimizer)
    end_fused(optimizer)
    return time.perf_counter() - begun


def begin_fused(optimizer: torch.optim.Optimizer, *_step: Any) -> None:
    """Set the flag for one step: what the script saves says what the script has chosen."""
    end_fused(optimizer)  # a step that raised
    if may_fuse(optimizer):
        for group in optimizer.param_groups:
            group["fused"] = OURS


def end_fused(optimizer: torch.optim.Optimizer, *_step: Any) -> None:
    for group in optimizer.param_groups:
        if group["fused"] is OURS:
            group["fused"] = None
