"""Runs a case eager, by plain torch.compile, or as dlc runs a job's calls; judges without dlc's comparison."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from reproducers.case import Case

# Share of a tensor's largest element, by format: faults are far larger, roundings far smaller.
ALLOWED = {torch.float64: 1e-6, torch.float32: 1e-3, torch.complex64: 1e-3, torch.bfloat16: 5e-2}
RAISES = "it raises"
GRADIENT = "gradient of "
# Of the largest gradient of a step.
CANCELLED = 1e-3


class Step(NamedTuple):
    """All that a step makes: outputs, gradients, and what it leaves in the module and in its arguments."""

    made: dict[str, torch.Tensor]


def run_steps(case: Case, call: Callable[..., Any], ended: Callable[[int], None] = lambda _step: None) -> list[Step]:
    """Train without an optimizer: gradients are taken, buffers go on from step to step."""
    steps = []
    with case.within():
        for number, arguments in enumerate(case.steps):
            case.before(case.module, number)
            torch.manual_seed(100 + number)
            steps.append(run_step(case.module, call, arguments))
            ended(number)
    return steps


def run_step(module: nn.Module, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Step:
    outputs = [each for each in tree_flatten(call(*arguments))[0] if isinstance(each, torch.Tensor)]
    made = {f"output {number}": each.detach().clone() for number, each in enumerate(outputs)}
    loss_of(outputs).backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            made[GRADIENT + name] = parameter.grad.clone()
        parameter.grad = None
    for name, buffer in module.named_buffers():
        made[f"buffer {name}"] = buffer.detach().clone()
    for number, each in enumerate(arguments):
        if isinstance(each, torch.Tensor):
            made[f"argument {number}"] = each.detach().clone()
    made["random numbers"] = torch.get_rng_state()
    return Step(made)


def loss_of(outputs: list[torch.Tensor]) -> torch.Tensor:
    """Weigh each element by another number; a single number is the loss itself."""
    trained = [each for each in outputs if each.requires_grad]
    generator = torch.Generator().manual_seed(11)
    losses = [(each * torch.rand(each.shape, generator=generator).to(each.dtype)).sum() for each in trained]
    total: torch.Tensor = sum(losses[1:], losses[0])
    return total


def differences(eager: list[Step], other: list[Step]) -> list[str]:
    """Return in words what is not as in eager."""
    return [
        f"step {number}: {text}"
        for number, (one, two) in enumerate(zip(eager, other, strict=True))
        for text in differences_of_step(one.made, two.made)
    ]


def differences_of_step(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> Iterator[str]:
    gradients = [largest_of(each) for name, each in one.items() if name.startswith(GRADIENT)]
    for name in {**one, **two}:
        left, right = one.get(name), two.get(name)
        if left is None or right is None:
            # No gradient is as good as zero.
            found = left if left is not None else right
            if found is not None and found.count_nonzero():
                yield f"{name} is missing"
        elif left.shape != right.shape or left.dtype != right.dtype:
            yield f"{name} has another shape or format"
        elif not left.dtype.is_floating_point and not left.dtype.is_complex:
            if not torch.equal(left, right):
                yield f"{name} is another"
        elif not torch.equal(left.isfinite(), right.isfinite()) or not torch.equal(left.isnan(), right.isnan()):
            yield f"{name} is not finite elsewhere"
        else:
            gap, size = largest_of(torch.where(left.isfinite(), right - left, 0)), largest_of(left)
            if name.startswith(GRADIENT):
                # Terms that cancel leave their rounding.
                size = max(size, CANCELLED * max(gradients))
            if gap > ALLOWED[left.dtype] * size:
                yield f"{name} is off by {gap / size if size else float('inf'):.2g}"


def largest_of(value: torch.Tensor) -> float:
    return float(torch.where(value.isfinite(), value, 0).abs().max()) if value.numel() else 0.0


def run_eager(make: Callable[[], Case]) -> list[Step]:
    case = make()
    return run_steps(case, case.module)


def run_compiled(make: Callable[[], Case]) -> list[Step]:
    """Run by plain torch.compile, with eager's random numbers so that both can be compared."""
    import torch._inductor.config as config

    torch.compiler.reset()
    case = make()
    with config.patch(fallback_random=True):
        return run_steps(case, torch.compile(case.module))


def find_wrong(make: Callable[[], Case]) -> list[str]:
    """Return in words what plain torch.compile gets wrong in this version."""
    try:
        return differences(run_eager(make), run_compiled(make))
    except Exception as fault:
        return [f"{RAISES}: {type(fault).__name__}"]


class ByDlc(NamedTuple):
    """What a job's calls made, and why dlc left the compiled way, "" if it did not."""

    steps: list[Step]
    refused: str
    # Steps that ran compiled before that.
    trained: int


def run_by_dlc(make: Callable[[], Case], sampled: bool = False) -> ByDlc:
    """Run as a job in which the way inductor was taken; `sampled`: each step is compared again."""
    from dlc_runtime.compiler.pytorch.dispatch import Dispatch
    from dlc_runtime.compiler.pytorch.in_place import compile_in_place
    from dlc_runtime.compiler.pytorch.ways import INDUCTOR, WAYS
    from dlc_runtime.compiler.settings import Settings

    torch.compiler.reset()
    case = make()
    refused: list[tuple[int, str]] = []

    def ended(number: int) -> None:
        if Dispatch.failed and not refused:
            refused.append((number, Dispatch.failed))
        Dispatch.step, Dispatch.sampling = number + 1, sampled

    with as_in_a_job(Settings()):
        compile_in_place(case.module, type(case.module).__name__, Settings())
        Dispatch.way, Dispatch.failed, Dispatch.step, Dispatch.sampling = WAYS[INDUCTOR], "", 0, False
        steps = run_steps(case, case.module, ended)
    trained, why = refused[0] if refused else (len(steps), "")
    return ByDlc(steps, why, trained)


@contextlib.contextmanager
def as_in_a_job(settings: Any) -> Iterator[None]:
    """Configure torch as a job's session does; afterwards all is as before."""
    import torch._dynamo.config as dynamo_config
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    from dlc_runtime.compiler.pytorch import dynamo
    from dlc_runtime.compiler.pytorch.dispatch import Dispatch, watch_compilations
    from dlc_runtime.compiler.pytorch.ways import EAGER, WAYS

    kept = {
        dynamo_config: ("suppress_errors", "skip_nnmodule_hook_guards", "ignore_logger_methods"),
        functorch_config: ("donated_buffer",),
        inductor_config: ("fallback_random",),
    }
    with contextlib.ExitStack() as stack:
        for config, names in kept.items():
            stack.enter_context(config.patch({name: getattr(config, name) for name in names if hasattr(config, name)}))
        dynamo.configure(settings)
        watch_compilations()
        try:
            yield
        finally:
            Dispatch.way, Dispatch.sampling = WAYS[EAGER], False
