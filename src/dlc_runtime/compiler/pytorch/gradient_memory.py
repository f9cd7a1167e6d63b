"""Gradients in memory that the next step writes over, as CUDA graphs leave them: copied before a script keeps them."""

from __future__ import annotations

import torch

from dlc_runtime.compiler.pytorch import torch_facts
from dlc_runtime.compiler.pytorch.differences import DifferentError

# Marks a gradient in memory of its own.
OWN = "_dlc_own"


def refuse_hooked_parameters(module: torch.nn.Module) -> None:
    """Raise if hooks see gradients before they can be copied."""
    if torch_facts.horovod_of_ranks() is not None:
        raise DifferentError("Horovod exchanges gradients in memory that the next step writes over")
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise DifferentError(f"a hook of {name} may keep a gradient, and the next step would write over it")


def own_gradients(modules: list[torch.nn.Module]) -> None:
    """Copy new gradients out of memory that the next step writes over, before the script can keep them."""
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
