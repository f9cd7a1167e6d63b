"""DLC115, DLC116: each step logs or saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.steps import backward_calls, every_step, over_epochs, steps
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
FEWEST_STEPS = 10


def logs_every_step(script: Script) -> Iterator[Hit]:
    """DLC115."""
    for call in script.calls(*TRAINING_ARGUMENTS):
        if literal(script.argument(call, "logging_steps")) == 1:
            yield Hit(
                script.arg(call, "logging_steps"),
                "logging_steps=1 reads the loss back in each step; log every 10 steps or more",
            )
    losses = _losses(script)
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


def _losses(script: Script) -> set[str]:
    """Names on which backward is called."""
    owners = []
    for call in backward_calls(script):
        owners += [call.func.value] if isinstance(call.func, cst.Attribute) else []
        owners += [arg.value for arg in call.args]
    return {one.value for one in owners if isinstance(one, cst.Name)} - {"accelerator", "self", "model", "fabric"}


def _shows_tensor(script: Script, call: cst.Call, losses: set[str]) -> bool:
    """Whether an argument is a loss or reads a tensor; a number that was read before costs nothing more."""
    for arg in call.args:
        for name in script.inside(arg, cst.Name):
            if name.value in losses:
                return True
        for read in script.inside(arg, cst.Call):
            if attribute(read.func) == "item" and not read.args:
                return True
    return False


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


RULES = (
    Rule("DLC115", "each training step logs a tensor", logs_every_step),
    Rule("DLC116", "each training step saves a checkpoint", saves_every_step),
)
