"""The barriers of PyTorch/XLA: calls that end the graph of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.script import attribute, literal, remembered

if TYPE_CHECKING:
    from dlc_lint.script.script import Script

SYNCS = {"torch_xla.core.xla_model.mark_step", "torch_xla.sync", "torch_xla.core.xla_model.unlazy"}
DEVICES = ("torch_xla.core.xla_model.xla_device", "torch_xla.device", "torch_xla.core.xla_model.xla_real_devices")
STEP_BLOCKS = ("torch_xla.step", "torch_xla.compile", "torch_xla.experimental.")


def is_sync(script: Script, call: cst.Call) -> bool:
    """`xm.mark_step()`, `torch_xla.sync()`, `xm.optimizer_step(optimizer, barrier=True)`."""
    if script.is_one_of(call.func, SYNCS):
        return True
    return attribute(call.func) == "optimizer_step" and literal(script.argument(call, "barrier", 1)) is True


def syncs_before(script: Script, node: cst.CSTNode, body: cst.CSTNode) -> bool:
    """Whether a barrier stands before `node` in the same body."""
    calls = [one for one in script.inside(body, cst.Call) if is_sync(script, one)]
    return any(script.before(one, node) for one in calls)


@remembered
def asks_for_xla_device(script: Script) -> bool:
    """Whether the script itself puts its model on an XLA device."""
    return any(True for _ in script.calls(*DEVICES))
