"""Compares a way with eager on one batch, forward and backward, and leaves no trace of it in the training.

Outputs, the gradient of each parameter and of each input, and what the module writes (buffers, tensors that it keeps)
are compared element by element, from the same random numbers. The module's forward and backward run twice more for it,
three times if rounding has to be told from a fault. What a module keeps from step to step is as before, and no gradient
is left.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import time

import torch
from torch.utils._pytree import tree_flatten

from dlc_runtime.compiler.choosing.verdict import FEWEST_PAIRS, Pair, judge
from dlc_runtime.compiler.pytorch.differences import (
    GRADIENT,
    OUTPUT,
    WRITTEN,
    DifferentError,
    NotComparedError,
    Seen,
    check,
    measure,
    share_of,
)
from dlc_runtime.compiler.pytorch.module_state import ModuleState, RandomState
from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Callable

# Of objects in objects that a forward returns.
DEPTH = 3
NOTHING_SEEN = "it neither returns nor keeps a tensor"
NO_GRADIENT = "no gradient goes through what it returns"
# As torch says that gradients are only to be had by backward().
REENTRANT = "compatible with .grad()"
# Passes with other roundings, if they are needed.
SHIFTS = 2
# Share of a GPU's memory that has to be free for gradients to stay there.
SPARE_MEMORY = 0.1
# What measuring TF32 may take.
TF32_SECONDS = 1.0


class Pass:
    """What one forward and backward makes, and the random numbers after it."""

    def __init__(
        self,
        run: Callable[[], Any],
        module: torch.nn.Module,
        state: ModuleState,
        inputs: list[torch.Tensor],
        by_backward: bool,
    ) -> None:
        output = run()
        self.structure = tree_flatten(output)[1]
        tensors = find_tensors(output) or find_kept_results(module)
        leaves = named_leaves(module, inputs)
        gradients = find_gradients(tensors, list(leaves.values()), by_backward)
        self.has_gradients = any(value is not None for value in gradients)
        written = state.written().items()
        seen = [
            *(Seen(OUTPUT, str(number), value.detach()) for number, value in enumerate(tensors, 1)),
            *(each for name, value in zip(leaves, gradients) for each in seen_gradient(name, value)),
            *(Seen(WRITTEN, name, after, before) for name, (before, after) in written),
        ]
        self.seen = {each.key: each for each in seen}
        self.random = RandomState()
        torch.clear_autocast_cache()


def named_leaves(module: torch.nn.Module, inputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return what gets a gradient: parameters that are trained, and inputs that were computed from others."""
    found = {name: value for name, value in module.named_parameters() if value.requires_grad}
    return found | {f"input {number}": value for number, value in enumerate(inputs, 1) if value.requires_grad}


def seen_gradient(name: str, value: torch.Tensor | None) -> list[Seen]:
    """Return a gradient as it is compared; of a sparse one both parts. One that is missing is left out, as is zero."""
    if value is None or not value.is_sparse:
        return [] if value is None else [Seen(GRADIENT, name, keep(value.detach()))]
    held = value.coalesce()
    return [Seen(GRADIENT, name, held.values().detach()), Seen(GRADIENT, f"{name} (which rows)", held.indices())]


def keep(value: torch.Tensor) -> torch.Tensor:
    """Return a gradient as it is kept until it is compared: a GPU that is nearly full keeps no second set of them."""
    if not value.is_cuda:
        return value
    free, total = torch.cuda.mem_get_info(value.device)
    return value.cpu() if free < SPARE_MEMORY * total else value


def find_tensors(tree: Any, depth: int = DEPTH) -> list[torch.Tensor]:
    """Return the tensors of a call's output; also those in objects of the script's classes, such as a dataclass."""
    found: list[torch.Tensor] = []
    for leaf in tree_flatten(tree)[0]:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif depth and hasattr(leaf, "__dict__") and not isinstance(leaf, (type, torch.nn.Module)):
            found.extend(find_tensors(dict(vars(leaf)), depth - 1))
    return found


def find_kept_results(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return results that the module keeps in attributes, such as its loss, in place of returning them."""
    kept = (value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor))
    return [value for value in kept if value.grad_fn is not None]


def find_gradients(
    tensors: list[torch.Tensor], leaves: list[torch.Tensor], by_backward: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of a loss if one is returned, else of all outputs with fixed weights."""
    roots = [tensor for tensor in tensors if tensor.requires_grad]
    roots = [tensor for tensor in roots if tensor.numel() == 1][:1] or roots
    if not roots or not leaves:
        return (None,) * len(leaves)
    weights = [make_weights(root) for root in roots]
    if by_backward:
        return find_by_backward(roots, leaves, weights)
    with without_hooks(leaves):
        found: tuple[torch.Tensor | None, ...] = torch.autograd.grad(roots, leaves, weights, allow_unused=True)
    return found


def find_by_backward(
    roots: list[torch.Tensor], leaves: list[torch.Tensor], weights: list[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Let backward() put gradients where a script finds them, and take them away again."""
    if any(getattr(leaf, "_post_accumulate_grad_hooks", None) for leaf in leaves):
        raise NotComparedError("a hook of the script does something with each new gradient")
    if not all(leaf.is_leaf for leaf in leaves):
        raise NotComparedError("checkpoint(use_reentrant=True) gives no gradient of its input")
    before = [leaf.grad for leaf in leaves]
    try:
        for leaf in leaves:
            leaf.grad = None
        with without_hooks(leaves):
            torch.autograd.backward(roots, weights)
        return tuple(leaf.grad for leaf in leaves)
    finally:
        for leaf, gradient in zip(leaves, before):
            leaf.grad = gradient


@contextlib.contextmanager
def without_hooks(leaves: list[torch.Tensor]) -> Iterator[None]:
    """Take the script's hooks of gradients away meanwhile: they are to see each gradient once."""
    hooked = [(leaf, leaf._backward_hooks) for leaf in leaves if leaf.is_leaf and leaf._backward_hooks]
    try:
        for leaf, _ in hooked:
            leaf._backward_hooks = None
        yield
    finally:
        for leaf, hooks in hooked:
            leaf._backward_hooks = hooks


def make_weights(root: torch.Tensor) -> torch.Tensor:
    """Return different weights, so that no sum of outputs is a constant, as that of a softmax is."""
    return torch.linspace(0.5, 1.5, root.numel(), device=root.device).view(root.shape).to(root.dtype)


def compare_with_eager(
    module: torch.nn.Module,
    eager: Callable[[], Any],
    other: Callable[[], Any],
    arguments: Any = (),
    in_eager: Callable[[], Any] = contextlib.nullcontext,
    always_shift: bool = False,
) -> str:
    """Return how close the way is to eager, in words.

    `arguments` are those of the call, whose gradients are compared too. `in_eager` is a context in which a backward
    that calls parts of the module again calls them eager. `always_shift`: as another rank may need it.

    Raises DifferentError, NotComparedError, or what `other` raises. What eager raises is the script's: it will meet it
    in its own call.
    """
    passes = Passes(module, [leaf for leaf in tree_flatten(arguments)[0] if isinstance(leaf, torch.Tensor)], in_eager)
    reference = passes.run_eager(eager)
    shifted = passes.run_shifted(eager) if always_shift else []
    refuse_what_shows_nothing(module, reference)
    found = passes.run(other)
    if reference.structure != found.structure:
        raise DifferentError(f"it returns {found.structure}, eager {reference.structure}")
    if not reference.random.equals(found.random):
        raise DifferentError("it draws other random numbers than eager")

    def shift() -> list[Mapping[str, Seen]]:
        return [complete(made.seen, reference.seen) for made in shifted or passes.run_shifted(eager)]

    return check(complete(reference.seen, found.seen), complete(found.seen, reference.seen), shift)


class Passes:
    """Passes of one module and one batch; each leaves everything as it was."""

    def __init__(self, module: torch.nn.Module, inputs: list[torch.Tensor], in_eager: Callable[[], Any]) -> None:
        self._module, self._inputs, self._in_eager = module, inputs, in_eager
        self._state = ModuleState(module, inputs)
        self._by_backward = False

    def run(self, call: Callable[[], Any]) -> Pass:
        try:
            return Pass(call, self._module, self._state, self._inputs, self._by_backward)
        finally:
            self._state.restore()

    def run_eager(self, eager: Callable[[], Any]) -> Pass:
        """Run what all others are compared with; find out how its gradients are to be had."""
        versions = [value._version for value in self._inputs]
        try:
            with self._in_eager():
                try:
                    found = self.run(eager)
                except RuntimeError as fault:
                    if REENTRANT not in str(fault):
                        raise
                    self._by_backward = True
                    found = self.run(eager)
        except NotComparedError:
            raise
        except Exception as fault:
            raise NotComparedError(f"{type(fault).__name__}: {first_line(fault)}") from None
        if any(value._version != version and value.requires_grad for value, version in zip(self._inputs, versions)):
            raise NotComparedError("it writes into its input")
        return found

    def run_shifted(self, eager: Callable[[], Any]) -> list[Pass]:
        """Run SHIFTS times with each weight moved up or down by a rounding of the least exact format that computes."""
        plain = (value for value in self._module.parameters() if type(value) is torch.nn.Parameter)
        parameters = [value for value in plain if value.is_floating_point()]
        kept, found = [value.data for value in parameters], []
        for seed in range(SHIFTS):
            try:
                for number, (value, data) in enumerate(zip(parameters, kept)):
                    value.data = shift_by_rounding(data, SHIFTS * number + seed)
                with self._in_eager():
                    found.append(self.run(eager))
            finally:
                for value, data in zip(parameters, kept):
                    value.data = data
        return found


def refuse_what_shows_nothing(module: torch.nn.Module, reference: Pass) -> None:
    if not any(seen.kind == OUTPUT for seen in reference.seen.values()):
        raise NotComparedError(NOTHING_SEEN)
    if not reference.has_gradients and any(value.requires_grad for value in module.parameters()):
        raise NotComparedError(NO_GRADIENT)


def complete(seen: dict[str, Seen], others: dict[str, Seen]) -> dict[str, Seen]:
    """Add what only the other pass has made: a missing gradient is zero, and what was not written is as before."""
    found = dict(seen)
    for name, other in others.items():
        if name in found or other.kind == OUTPUT:
            continue
        if other.kind == GRADIENT:
            found[name] = other._replace(value=torch.zeros_like(other.value))
        elif other.before is not None:
            found[name] = other._replace(value=other.before)
    return found


def shift_by_rounding(data: torch.Tensor, seed: int) -> torch.Tensor:
    """Move each number up or down by a rounding. The random numbers are its own: the script's stay as they are."""
    generator = torch.Generator(data.device).manual_seed(seed)
    signs = torch.randint(0, 2, data.shape, generator=generator, dtype=torch.int8, device=data.device) * 2 - 1
    return torch.addcmul(data, data, signs.to(data.dtype), value=rounding(data.dtype))


def rounding(kept_in: torch.dtype) -> float:
    """Return the share by which a number is rounded where it is computed with."""
    formats = [*autocast_formats(), kept_in]
    if torch.cuda.is_initialized() and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32):
        formats.append(torch.float16)  # TF32 has as many digits
    return max(float(torch.finfo(each).eps) for each in formats)


def measure_tf32(module: torch.nn.Module, eager: Callable[[], Any]) -> str:
    """Measure forward and backward of a batch without and with TF32, in turns; return the speed-up in words.

    "" if that could not be measured. It leaves no trace.
    """
    parameters = [value for value in module.parameters() if value.requires_grad]
    state, before = ModuleState(module), torch.get_float32_matmul_precision()
    times: list[Pair] = []

    def time_pass(precision: str) -> float:
        torch.set_float32_matmul_precision(precision)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        find_gradients([leaf for leaf in tree_flatten(eager())[0] if isinstance(leaf, torch.Tensor)], parameters)
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    try:
        # The first ones choose kernels.
        took = time_pass("high") + time_pass("highest")
        end = time.perf_counter() + TF32_SECONDS - took
        while len(times) < FEWEST_PAIRS and time.perf_counter() + took < end:
            times.append(Pair(time_pass("highest"), time_pass("high")))
    except Exception:
        # The script meets what its own code raises in its own call.
        return ""
    finally:
        torch.set_float32_matmul_precision(before)
        torch.clear_autocast_cache()
        state.restore()
    verdict = judge(times)
    if verdict.low is None and verdict.middle is not None:
        return f"about {verdict.middle:.2f} times as fast ({verdict.pairs} pairs)"
    return verdict.words() if times else ""


def state_tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return parameters that have gradients, these, and what the optimizer keeps of each."""
    trained = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    values = [value for p in trained for value in (p, p.grad, *optimizer.state.get(p, {}).values())]
    return [value.detach() for value in values if isinstance(value, torch.Tensor)]


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    return sum(value.nbytes for value in state_tensors(optimizer))


def copy_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return one with parameters and state of its own, the same gradients, and no hooks of the script's."""
    found = copy.deepcopy(optimizer)
    for group, copied in zip(optimizer.param_groups, found.param_groups):
        for parameter, its in zip(group["params"], copied["params"]):
            its.grad = parameter.grad
    return found


def autocast_formats() -> list[torch.dtype]:
    """Return number formats of the autocasts that are on."""
    if torch.__version__ >= (2, 4):  # a TorchVersion
        return [torch.get_autocast_dtype(device) for device in ("cuda", "cpu") if torch.is_autocast_enabled(device)]
    gpu = [torch.get_autocast_gpu_dtype()] if torch.is_autocast_enabled() else []
    return gpu + ([torch.get_autocast_cpu_dtype()] if torch.is_autocast_cpu_enabled() else [])


def largest_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return it as a share of the largest value; infinite if numbers that are not finite are so in one only."""
    gap, size = measure(Seen(OUTPUT, "", one), Seen(OUTPUT, "", other))
    return share_of(gap.largest, size.largest)


def first_line(fault: Exception) -> str:
    return (str(fault).strip().splitlines() or [""])[0]


def is_of_compiled_code(fault: Exception) -> bool:
    """Tell whether the fault came out of code that AOTAutograd has made."""
    trace = fault.__traceback__
    while trace is not None and "_aot_autograd" not in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace is not None


def is_raised_by_script(fault: Exception) -> bool:
    """Tell whether a `raise` of the script's is the cause: the forward has run up to there, and needs no repetition."""
    frames = []
    trace = fault.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    if len(frames) < 2 or fault.__cause__ or fault.__context__:
        return False
    code, caller = frames[-1].tb_frame.f_code, frames[-2].tb_frame.f_code.co_filename
    # A backend that the script brought is called by torch, as any other.
    if any(part in caller for part in ("_dynamo", "_functorch")):
        return False
    return is_user_code(code.co_filename) and code.co_code[frames[-1].tb_lasti] == dis.opmap["RAISE_VARARGS"]
