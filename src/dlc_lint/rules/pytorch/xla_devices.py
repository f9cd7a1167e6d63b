"""DLC121, DLC125, DLC127: what does not go with an XLA device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.modules import uses_xla
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.syncs import asks_for_xla_device
from dlc_lint.script.trainers import TRAINING_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

CHOICES = (cst.If, cst.IfExp, cst.Try)


def cuda_beside_xla(script: Script) -> Iterator[Hit]:
    """DLC121."""
    if not uses_xla(script) or not asks_for_xla_device(script):
        return
    for call in script.all(cst.Call):
        if _names_cuda(script, call) and script.around(call, *CHOICES) is None:
            yield Hit(
                call,
                f"{script.code(call)} is CUDA's device, and the model is on XLA's; use the one of "
                "torch_xla.device() everywhere",
            )


def _names_cuda(script: Script, call: cst.Call) -> bool:
    if attribute(call.func) == "cuda" and not script.name(call.func):
        return True
    first = call.args[0].value if call.args else None
    places = [script.argument(call, "device")]
    if attribute(call.func) == "to" or script.is_one_of(call.func, {"torch.device"}):
        places.append(first)
    return any(isinstance(literal(one), str) and str(literal(one)).startswith("cuda") for one in places)


def plain_save(script: Script) -> Iterator[Hit]:
    """DLC125."""
    if not uses_xla(script) or not asks_for_xla_device(script):
        return
    for call in script.calls("torch.save"):
        saved = script.argument(call, "obj", 0)
        if saved is None or not _of_model(script, saved) or _beside_its_own(script, call):
            continue
        module = _module_name(script)
        safe = (
            module
            and not script.around(call, *CHOICES, cst.With)
            and len(call.args) == 2
            and not any(arg.keyword for arg in call.args)
        )
        edits = (script.replace(call.func, f"{module}.save"),) if safe else ()
        yield Hit(
            call.func,
            "torch.save writes tensors of the XLA device; xm.save copies them to the host first "
            "and writes once for all processes",
            edits,
        )


def _beside_its_own(script: Script, call: cst.Call) -> bool:
    """`if on_xla: xm.save(...)`, `else: torch.save(...)`."""
    choices = [one for one in script.ancestors(call) if isinstance(one, cst.If)]
    return any(script.code(one.func) == "xm.save" for choice in choices for one in script.inside(choice, cst.Call))


def _of_model(script: Script, saved: cst.BaseExpression) -> bool:
    """A state_dict, not yet on the host."""
    value = script.value(saved)
    if value is None:
        return False
    calls = [attribute(one.func) for one in script.inside(value, cst.Call)]
    words = script.code(value)
    return "state_dict" in calls and "cpu" not in calls and "cpu" not in words


def _module_name(script: Script) -> str:
    """What the script calls torch_xla.core.xla_model; "" where it has no name for it at the top."""
    for one in script.all(cst.Import):
        for alias in one.names:
            if script.module.code_for_node(alias.name) == "torch_xla.core.xla_model" and alias.asname is not None:
                return script.module.code_for_node(alias.asname.name) if script.function(one) is None else ""
    return ""


def fused_optimizer(script: Script) -> Iterator[Hit]:
    """DLC127."""
    if not uses_xla(script):
        return
    for call in script.calls("torch.optim."):
        if literal(script.argument(call, "fused")) is True:
            arg = script.arg(call, "fused")
            yield Hit(
                arg,
                "XLA has no fused optimizer: the first step fails; leave fused out",
                script.drop_argument(call, arg),
            )
    for call in script.calls(*TRAINING_ARGUMENTS):
        given = script.argument(call, "optim")
        if given is not None and literal(given) == "adamw_torch_fused":
            yield Hit(
                given,
                'XLA has no fused optimizer: the first step fails; use optim="adamw_torch"',
                (script.replace(given, '"adamw_torch"'),),
            )
        elif given is None and not script.has_stars(call):
            yield Hit(call.func, 'the default optimizer is a fused one, which XLA has not; use optim="adamw_torch"')


RULES = (
    Rule("DLC121", "CUDA's device beside XLA's", cuda_beside_xla),
    Rule("DLC125", "torch.save of a model on XLA", plain_save, fixable=True),
    Rule("DLC127", "a fused optimizer on XLA", fused_optimizer, fixable=True),
)
