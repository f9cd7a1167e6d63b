"""DLC115, DLC116, DLC118: each step logs, saves, or shows a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.steps import every_step, losses_of, over_epochs, steps
from dlc_lint.script.trainers import TRAINING_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

CHECKPOINTS = ("lightning.callbacks.ModelCheckpoint",)
LOG_METHODS = {"add_scalar", "add_scalars", "add_histogram", "log_metric", "log_metrics"}
LOG_FUNCTIONS = {
    "print",
    "wandb.log",
    "mlflow.log_metric",
    "mlflow.log_metrics",
    "torch_xla.core.xla_model.master_print",
}
LOG_LEVELS = {"info", "warning", "debug", "error"}
SAVE_FUNCTIONS = {"torch.save", "torch_xla.core.xla_model.save", "torch.distributed.checkpoint.save"}
SAVE_METHODS = {"save_pretrained", "save_state", "save_checkpoint"}
BAR_METHODS = {"set_postfix", "set_postfix_str", "set_description", "set_description_str"}
FEWEST_STEPS = 10


def logs_every_step(script: Script) -> Iterator[Hit]:
    """DLC115."""
    for call in script.calls(*TRAINING_ARGUMENTS):
        if literal(script.argument(call, "logging_steps")) == 1:
            yield Hit(
                script.arg(call, "logging_steps"),
                "logging_steps=1 reads the loss back in each step; log every 10 steps or more",
            )
    losses = losses_of(script)
    found = [step for step in steps(script) if step.loop is not None and not over_epochs(script, step)]
    for call in script.all(cst.Call):
        what = _logs(script, call)
        if not what or not _shows_tensor(script, call, losses) or script.around(call, cst.Lambda):
            continue
        if any(every_step(script, call, step) for step in found):
            yield Hit(
                call, f"{what} evaluates a tensor in each step, and the device waits for it; log every 10 steps or more"
            )


def _logs(script: Script, call: cst.Call) -> str:
    name, full = attribute(call.func), script.name(call.func)
    if full in LOG_FUNCTIONS:
        return full.rpartition(".")[2] if full != "wandb.log" else full
    if name in LOG_METHODS and not full:
        return f".{name}"
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    word = owner.value.lower() if isinstance(owner, cst.Name) else ""
    if (name in LOG_LEVELS and word in ("logger", "logging", "log")) or (name == "print" and word == "accelerator"):
        return f"{word}.{name}"
    return ""


def _shows_tensor(script: Script, call: cst.Call, losses: set[str]) -> bool:
    """Whether an argument is a loss or reads a tensor; a number that was read before costs nothing more."""
    for arg in call.args:
        given = script.value(arg.value)
        shown = given if isinstance(given, cst.Dict) else arg.value  # `logs = {...}`, then `**logs`
        if any(one.value in losses and not _is_part(script, one) for one in script.inside(shown, cst.Name)):
            return True
        if any(attribute(one.func) == "item" and not one.args for one in script.inside(shown, cst.Call)):
            return True
    return False


def _is_part(script: Script, name: cst.Name) -> bool:
    """`loss` in `meters.loss`, and as a keyword."""
    above = script.parent(name)
    return (isinstance(above, cst.Attribute) and above.attr is name) or (
        isinstance(above, cst.Arg) and above.keyword is name
    )


def saves_every_step(script: Script) -> Iterator[Hit]:
    """DLC116."""
    for call in script.calls(*TRAINING_ARGUMENTS):
        number = literal(script.argument(call, "save_steps"))
        often = isinstance(number, int) and 1 <= number < FEWEST_STEPS
        if often and literal(script.argument(call, "save_strategy")) in (..., "steps"):
            yield Hit(
                script.arg(call, "save_steps"),
                f"save_steps={number} stops training for a checkpoint nearly all the time; save every "
                "some hundred steps",
            )
    for call in script.calls(*CHECKPOINTS):
        if literal(script.argument(call, "every_n_train_steps")) == 1:
            yield Hit(
                script.arg(call, "every_n_train_steps"),
                "a checkpoint after each step makes the device wait for the disk; save once an epoch, "
                "or every some hundred steps",
            )
    found = [step for step in steps(script) if step.loop is not None and not over_epochs(script, step)]
    for call in script.all(cst.Call):
        saves = script.is_one_of(call.func, SAVE_FUNCTIONS) or (
            attribute(call.func) in SAVE_METHODS and not script.name(call.func)
        )
        if saves and any(every_step(script, call, step) for step in found):
            yield Hit(
                call,
                "a checkpoint in each step makes the device wait for the disk; save once an epoch, or "
                "every some hundred steps",
            )


def shows_every_step(script: Script) -> Iterator[Hit]:
    """DLC118."""
    losses = losses_of(script)
    found = [step for step in steps(script) if step.loop is not None and not over_epochs(script, step)]
    for call in script.all(cst.Call):
        if attribute(call.func) not in BAR_METHODS or not _shows_tensor(script, call, losses):
            continue
        if any(every_step(script, call, step) for step in found):
            yield Hit(
                call,
                f".{attribute(call.func)} reads a tensor in each step, and the device waits for it; change what "
                "the bar shows every 10 steps or more",
            )


RULES = (
    Rule("DLC115", "each training step logs a tensor", logs_every_step),
    Rule("DLC116", "each training step saves a checkpoint", saves_every_step),
    Rule("DLC118", "each training step reads a tensor for the progress bar", shows_every_step),
)
