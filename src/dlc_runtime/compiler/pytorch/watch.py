"""Watches the first eager steps: which modules the script calls, and which of them it trains.

Hooks on all modules would become part of what the script itself compiles, so they are there for these steps only.
"""

from __future__ import annotations

import threading

import torch
from torch.nn.modules import module as modules

from dlc_runtime.compiler.base.guarded import guarded
from dlc_runtime.compiler.base.seen import Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NO_BACKWARD = -1
MOST_OUTPUTS = 32  # tensors of one output that are watched for a second backward


class Root:
    """A module that the script calls itself."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.with_gradients = False
        self.twice = False  # its backward was itself differentiated

    def note_backward(self, _gradient: torch.Tensor) -> None:
        if torch.is_grad_enabled():  # in a backward: only with create_graph=True
            self.twice = True


class Watch:
    def __init__(self, fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self.roots: dict[int, Root] = {}
        self.stepped = Seen()  # parameters of the optimizers that stepped
        self._thread = threading.local()
        self._handles: list[Any] = []

    def begin(self) -> None:
        self._handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
        ]

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def note_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.stepped.add_all(parameters_of(optimizer))

    def waiting(self) -> bool:
        """Whether a module was called with gradients and none of its parameters has been stepped yet."""
        return any(root.with_gradients and not self.trained(root.module) for root in self.roots.values())

    def trained(self, module: torch.nn.Module) -> bool:
        return any(parameter in self.stepped for parameter in module.parameters())

    @guarded
    def _enter(self, module: torch.nn.Module, _arguments: Any) -> None:
        if torch.compiler.is_compiling():
            return
        stack = self._stack()
        if (
            not stack and torch._C._current_graph_task_id() == NO_BACKWARD
        ):  # checkpointing calls modules in the backward
            root = self.roots.setdefault(id(module), Root(module))
            root.with_gradients |= torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
        stack.append(module)

    @guarded
    def _leave(self, module: torch.nn.Module, _arguments: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        stack = self._stack()
        while stack and stack.pop() is not module:  # a module that raised before it was entered in full
            pass
        if not stack and id(module) in self.roots:
            self._watch_backward(self.roots[id(module)], output)

    def _watch_backward(self, root: Root, output: Any) -> None:
        for leaf in torch.utils._pytree.tree_flatten(output)[0][:MOST_OUTPUTS]:
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(root.note_backward)

    def _stack(self) -> list[torch.nn.Module]:
        stack: list[torch.nn.Module] = self._thread.__dict__.setdefault("stack", [])
        return stack


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
