"""Sees steps of PyTorch's optimizers: by its own hook from 2.0 on, before that around each class's `step`."""

from __future__ import annotations

import functools
import sys

from dlc_runtime.steps.counter import ThisProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable

COUNTED = "_dlc_counted"


def patch(module: ModuleType) -> None:
    """Patch `module`, which is torch.optim.optimizer."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(make_hook(module))
    else:
        _wrap_each_class(module.__dict__["Optimizer"])


def make_hook(module: ModuleType) -> Callable[..., None]:
    optimizers = vars(module)

    def after_step(optimizer: Any, _arguments: Any, _named: Any) -> None:
        if not _is_inner(optimizers):
            ThisProcess.counter.note_optimizer(optimizer)

    # For a script that compiles `optimizer.step`: Dynamo calls this instead of reading it
    after_step._torchdynamo_disable = True  # type: ignore[attr-defined]
    return after_step


def _is_inner(optimizers: dict[str, Any]) -> bool:
    """Tell whether another step called the one that has just ended: super().step(), ZeRO, Horovod's optimizer.

    The stack tells, and no count of beginnings: a step that raises has no end to count.
    """
    frame, step = sys._getframe(1), None
    while (outer := frame.f_back) is not None:
        frame = outer
        # PyTorch's own function around each step; it calls our hook
        if frame.f_globals is optimizers:
            if frame.f_code is step:
                return True
            step = step or frame.f_code
    return False


def _wrap_each_class(optimizer: Any) -> None:
    """Wrap a class's step when its first optimizer is made, as PyTorch before 2.0 does itself."""
    original = optimizer._hook_for_profile

    def hook(self: Any) -> None:
        original(self)
        kind = type(self)
        if not hasattr(kind.step, COUNTED):
            kind.step = _counted(kind.step)

    optimizer._hook_for_profile = hook


_depth = 0


def _counted(step: Any) -> Any:
    @functools.wraps(step)
    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        global _depth
        _depth += 1
        try:
            result = step(self, *arguments, **named)
        finally:
            _depth -= 1
        if not _depth:
            ThisProcess.counter.note_optimizer(self)
        return result

    setattr(run, COUNTED, True)
    return run
