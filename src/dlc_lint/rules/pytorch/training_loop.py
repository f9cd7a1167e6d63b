"""DLC115, DLC116, DLC118, DLC141, DLC142: what a training loop does in each step, and how its batches come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.loaders import loaders_of, training_loaders
from dlc_lint.script.models import uses_xla
from dlc_lint.script.script import attribute, literal, root
from dlc_lint.script.training_steps import TRAINING_ARGUMENTS, every_step, losses_of, over_epochs, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script
    from dlc_lint.script.training_steps import Step

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
# Other ways to pinned memory, or to batches that are on the GPU from the start.
PINS = {"pin_memory", "set_default_device", "set_default_tensor_type"}
REMEDY = "set num_workers to the processor cores of each device"


def logs_every_step(script: Script) -> Iterator[Hit]:
    """Find DLC115."""
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
    """Return whether an argument is a loss or reads a tensor; a number that was read before costs nothing more."""
    for arg in call.args:
        given = script.value(arg.value)
        # `logs = {...}`, then `**logs`.
        shown = given if isinstance(given, cst.Dict) else arg.value
        if any(one.value in losses and not _is_part(script, one) for one in script.inside(shown, cst.Name)):
            return True
        if any(attribute(one.func) == "item" and not one.args for one in script.inside(shown, cst.Call)):
            return True
    return False


def _is_part(script: Script, name: cst.Name) -> bool:
    """Recognise `loss` in `meters.loss`, and as a keyword."""
    above = script.parent(name)
    return (isinstance(above, cst.Attribute) and above.attr is name) or (
        isinstance(above, cst.Arg) and above.keyword is name
    )


def saves_every_step(script: Script) -> Iterator[Hit]:
    """Find DLC116."""
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
    """Find DLC118."""
    losses = losses_of(script)
    found = [step for step in steps(script) if step.loop is not None and not over_epochs(script, step)]
    for call in script.all(cst.Call):
        if attribute(call.func) not in BAR_METHODS:
            continue
        running = [step for step in found if every_step(script, call, step)]
        if running and _shows_tensor(script, call, losses):
            yield Hit(
                call,
                f".{attribute(call.func)} reads a tensor in each step, and the device waits for it; change what "
                "the bar shows every 10 steps or more",
            )
            continue
        read = next((one for step in running for one in reads_for(script, call, step)), None)
        if read is not None:
            yield Hit(
                call,
                f".{attribute(call.func)} shows {script.code(read)}, which line {script.line(read)} reads in each "
                "step, and the device waits for it; read it, and change what the bar shows, every 10 steps or more",
            )


def reads_for(script: Script, call: cst.Call, step: Step) -> Iterator[cst.Call]:
    """Yield `loss.item()` of `value = loss.item()` before `bar.set_postfix(loss=value)` in the same step."""
    shown = {one.value for arg in call.args for one in script.inside(arg.value, cst.Name)}
    shown |= {arg.value.value for arg in call.args if isinstance(arg.value, cst.Name)}
    made: list[cst.Assign | cst.AugAssign] = [
        *script.inside(step.body, cst.Assign), *script.inside(step.body, cst.AugAssign)
    ]  # fmt: skip
    for one in made:
        targets = [part.target for part in one.targets] if isinstance(one, cst.Assign) else [one.target]
        names = {target.value for target in targets if isinstance(target, cst.Name)}
        if names.isdisjoint(shown) or not script.before(one, call) or not every_step(script, one, step):
            continue
        values = [one.value, *script.inside(one.value, cst.Call)]
        yield from (part for part in values if isinstance(part, cst.Call) and attribute(part.func) == "item")


def no_workers(script: Script) -> Iterator[Hit]:
    """Find DLC141."""
    for call in training_loaders(script):
        workers = script.argument(call, "num_workers", 5)
        if literal(workers) == 0 and not isinstance(literal(workers), bool):
            yield Hit(
                call,
                f"num_workers=0 reads the training data in the training process, and the compiled step waits; {REMEDY}",
            )
        elif workers is None and not script.has_stars(call) and _decodes_images(script, call):
            yield Hit(
                call,
                "without num_workers the training process itself decodes the images, and the compiled "
                f"step waits; {REMEDY}",
            )


def _decodes_images(script: Script, call: cst.Call) -> bool:
    made = script.value(script.argument(call, "dataset", 0))
    return isinstance(made, cst.Call) and script.name(made.func).startswith("torchvision.datasets.")


def pageable_memory(script: Script) -> Iterator[Hit]:
    """Find DLC142."""
    if uses_xla(script) or any(attribute(one.func) in PINS for one in script.all(cst.Call)):
        return
    said: set[int] = set()
    for step in steps(script):
        copy = _copy_to_gpu(script, step) if step.loop is not None and step.body is step.loop.body else None
        for loader in loaders_of(script, step.loop) if copy is not None else ():
            if id(loader) not in said and _is_pageable(script, loader):
                said.add(id(loader))
                yield Hit(
                    loader,
                    f"its batches are not in pinned memory, so the step waits for {script.code(copy)}; "  # type: ignore[arg-type]
                    "set pin_memory=True, and non_blocking=True for the copy",
                )


def _is_pageable(script: Script, loader: cst.Call) -> bool:
    """Return whether it has no pin_memory, and its data is surely not on the GPU."""
    pinned = script.argument(loader, "pin_memory", 7)
    if script.has_stars(loader) or (pinned is not None and literal(pinned) is not False):
        return False
    makers = (script.argument(loader, "dataset", 0), script.argument(loader, "collate_fn", 6))
    return not any(_may_be_on_gpu(script, one) for one in makers if one is not None)


def _may_be_on_gpu(script: Script, given: cst.BaseExpression) -> bool:
    """Return whether what makes the data, or puts a batch together, names a device."""
    made = script.value(given)
    made_by = script.value(made.func) if isinstance(made, cst.Call) else None
    text = " ".join(script.module.code_for_node(one) for one in (made, made_by) if one is not None)
    return any(word in text for word in ("cuda", "device", ".to("))


def _copy_to_gpu(script: Script, step: Step) -> cst.Call | None:
    """Return `images.to(device, non_blocking=True)`, `images.cuda()` of what the loop gives."""
    names = _of_batch(script, step)
    for call in script.inside(step.body, cst.Call):
        if attribute(call.func) not in ("to", "cuda") or script.name(call.func):
            continue
        first = root(call.func)
        is_batch = isinstance(first, cst.Name) and first.value in names
        asks = literal(script.argument(call, "non_blocking")) is True
        if is_batch and (asks or (_surely_gpu(script, call) and every_step(script, call, step))):
            return call
    return None


def _surely_gpu(script: Script, call: cst.Call) -> bool:
    place = literal(script.argument(call, "device", 0))
    return attribute(call.func) == "cuda" or (isinstance(place, str) and place.startswith("cuda"))


def _of_batch(script: Script, step: Step) -> set[str]:
    """Return the names of the batch and of its parts."""
    names = (
        {one.value for one in script.inside(step.loop.target, cst.Name)} if isinstance(step.loop, cst.For) else set()
    )
    for assign in script.inside(step.body, cst.Assign):
        first = root(assign.value)
        if isinstance(first, cst.Name) and first.value in names:
            names |= {one.value for target in assign.targets for one in script.inside(target, cst.Name)}
    for part in script.inside(step.body, cst.CompFor):
        first = root(part.iter)
        if isinstance(first, cst.Name) and first.value in names:
            names |= {one.value for one in script.inside(part.target, cst.Name)}
    return names


RULES = (
    Rule("DLC115", "each training step logs a tensor", logs_every_step),
    Rule("DLC116", "each training step saves a checkpoint", saves_every_step),
    Rule("DLC118", "each training step reads a tensor for the progress bar", shows_every_step),
    Rule("DLC141", "the training process reads its data itself", no_workers),
    Rule("DLC142", "batches are copied from memory that is not pinned", pageable_memory),
)
