"""Compares a way with eager on one batch, forward and backward, and leaves no trace of it in the training.

The module's forward runs twice more for it, or four times if it draws random numbers. Random numbers, and what a module
keeps from step to step, are as before; no gradient is left.
"""

from __future__ import annotations

import copy
import dis
import time

import torch
from torch.utils._pytree import tree_flatten

from dlc_runtime.compiler.pytorch.module_state import ModuleState, RandomState
from dlc_runtime.compiler.report.verdict import FEWEST_PAIRS, Pair, judge
from dlc_runtime.compiler.source_locations import is_user_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

# Largest difference of a tensor, as a share of its largest value. float32 is that of GPUs, whose convolutions round.
TOLERANCES = {torch.float64: 1e-6, torch.float32: 2e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# A module with random numbers runs so often, to see how far they spread its results.
DRAWS = 3
# Allowed beyond the draws: times their spread, and a share of the value.
SPREAD, RANDOM_TOLERANCE = 10.0, 0.05
# Of objects in objects that a forward returns.
DEPTH = 3
NOTHING_SEEN = "not compared with eager: it neither returns nor keeps a tensor"
# What measuring TF32 may take.
TF32_SECONDS = 1.0


class DifferentError(Exception):
    """What the way computes is not what eager computes."""


class PassResult:
    """Outputs of one forward, and the norm of each parameter's gradient."""

    def __init__(self, run: Callable[[], Any], module: torch.nn.Module, parameters: list[torch.Tensor]) -> None:
        output = run()
        self.structure = tree_flatten(output)[1]
        tensors = find_tensors(output) or find_kept_results(module)
        self.outputs = [tensor.detach() for tensor in tensors]
        self.norms, self.has_gradients = gradient_norms(tensors, parameters), bool(parameters)
        torch.clear_autocast_cache()

    def summary(self) -> torch.Tensor:
        """Return norms of outputs and of all gradients together: they are alike in draws of other random numbers."""
        outputs = [output.float().norm() for output in self.outputs if output.is_floating_point()]
        return torch.stack([*(value.cpu() for value in outputs), self.norms.norm().cpu()])


def compared_parameters(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return those whose gradients are compared: none if hooks of the script would see them more than once."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    hooked = any(parameter._backward_hooks for parameter in parameters) or any(
        part._backward_hooks or part._backward_pre_hooks for part in module.modules()
    )
    return [] if hooked else parameters


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


def find_gradients(tensors: list[torch.Tensor], parameters: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of a loss if one is returned, else of all outputs with fixed weights."""
    roots = [tensor for tensor in tensors if tensor.requires_grad]
    roots = [tensor for tensor in roots if tensor.numel() == 1][:1] or roots
    if not roots or not parameters:
        return ()
    weights = [make_weights(root) for root in roots]
    found: tuple[torch.Tensor | None, ...] = torch.autograd.grad(roots, parameters, weights, allow_unused=True)
    return found


def gradient_norms(tensors: list[torch.Tensor], parameters: list[torch.Tensor]) -> torch.Tensor:
    found = find_gradients(tensors, parameters)
    if not found:
        return torch.zeros(1)
    dense = [value.coalesce().values() if value is not None and value.is_sparse else value for value in found]
    return torch.stack([torch.zeros(()) if value is None else value.detach().float().norm().cpu() for value in dense])


def make_weights(root: torch.Tensor) -> torch.Tensor:
    """Return different weights, so that no sum of outputs is a constant, as that of a softmax is."""
    return torch.linspace(0.5, 1.5, root.numel(), device=root.device).view(root.shape).to(root.dtype)


def compare_with_eager(module: torch.nn.Module, eager: Callable[[], Any], other: Callable[[], Any]) -> str:
    """Return what was compared, in words; raise DifferentError, or what `other` raises.

    What eager raises is the script's: then nothing is compared, and the script meets it in its own call.
    """
    parameters = compared_parameters(module)
    state = ModuleState(module)
    try:
        before = RandomState()
        reference = PassResult(eager, module, parameters)
        draws = [reference.summary()] if before.is_drawn_from() else []
        while draws and len(draws) < DRAWS:
            draws.append(PassResult(eager, module, parameters).summary())
    except Exception as fault:
        state.restore()
        return f"not compared with eager ({type(fault).__name__}: {first_line(fault)})"
    state.restore()
    if not reference.outputs:
        return NOTHING_SEEN
    try:
        found = PassResult(other, module, parameters)
    finally:
        state.restore()
    check_structure(reference, found)
    if draws:
        return compare_draws(draws, found.summary())
    return compare_values(reference, found, allowed_difference(module, reference))


def measure_tf32(module: torch.nn.Module, eager: Callable[[], Any]) -> str:
    """Measure forward and backward of a batch without and with TF32, in turns; return the speed-up in words.

    "" if that could not be measured. It leaves no trace.
    """
    parameters = compared_parameters(module)
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


def check_structure(reference: PassResult, found: PassResult) -> None:
    shapes, others = ([(tuple(output.shape), output.dtype) for output in seen.outputs] for seen in (reference, found))
    if reference.structure != found.structure or shapes != others:
        raise DifferentError(f"it returns {others}, eager {shapes}")


def compare_draws(draws: list[torch.Tensor], found: torch.Tensor) -> str:
    values = torch.stack(draws)
    middle, spread = values.mean(0), values.max(0).values - values.min(0).values
    beyond = (found - middle).abs() - SPREAD * spread - RANDOM_TOLERANCE * middle.abs() - 1e-6
    if not bool((beyond <= 0).all()):
        worst = int(torch.nan_to_num(beyond, nan=float("inf")).argmax())
        raise DifferentError(
            f"the norm of a result is {float(found[worst]):.6g}, eager {float(middle[worst]):.6g} in {len(draws)} draws"
        )
    return f"as eager, by the norms of results and gradients: it draws random numbers ({len(draws)} draws of eager)"


def compare_values(reference: PassResult, found: PassResult, allowed: float) -> str:
    largest = 0.0
    for one, other in zip(reference.outputs, found.outputs):
        largest = max(largest, largest_difference(one, other))
    floor = 0.01 * reference.norms.norm()
    gradients = ((found.norms - reference.norms).abs() / (reference.norms + floor).clamp_min(1e-30)).max()
    largest_gradient = float(torch.nan_to_num(gradients, nan=float("inf")))
    if largest > allowed or largest_gradient > allowed:
        raise DifferentError(
            f"it differs from eager by {largest:.2g} in its outputs and {largest_gradient:.2g} in its gradients, "
            f"{allowed:g} is allowed"
        )
    if not reference.has_gradients:
        return f"as eager: outputs within {largest:.2g} ({allowed:g} is allowed), gradients were not compared"
    return f"as eager: outputs within {largest:.2g}, gradients within {largest_gradient:.2g} ({allowed:g} is allowed)"


def largest_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return it as a share of the largest value; numbers that are not finite must be so in both."""
    if not one.numel():
        return 0.0
    if not (one.is_floating_point() or one.is_complex()):
        return float((one != other).float().mean())
    if not torch.equal(torch.isfinite(one), torch.isfinite(other)):
        return float("inf")
    one, other = (torch.where(torch.isfinite(value), value, torch.zeros_like(value)) for value in (one, other))
    largest = float(one.abs().max())
    return float((one - other).abs().max()) / (largest or 1.0)


def allowed_difference(module: torch.nn.Module, reference: PassResult) -> float:
    """Return the tolerance of the least exact number format that takes part."""
    formats = {output.dtype for output in reference.outputs} | {value.dtype for value in module.parameters()}
    formats.update(autocast_formats())
    return max((TOLERANCES[known] for known in formats if known in TOLERANCES), default=TOLERANCES[torch.float32])


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
