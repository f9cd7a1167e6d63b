"""DLC141, DLC142: batches come too late for a compiled step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.loaders import loaders_of, training_loaders
from dlc_lint.script.modules import uses_xla
from dlc_lint.script.script import attribute, literal, root
from dlc_lint.script.steps import every_step, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script
    from dlc_lint.script.steps import Step

# Other ways to pinned memory, or to batches that are on the GPU from the start.
PINS = {"pin_memory", "set_default_device", "set_default_tensor_type"}
REMEDY = "set num_workers to the processor cores of each device"


def no_workers(script: Script) -> Iterator[Hit]:
    """DLC141."""
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
    """DLC142."""
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
    """Without pin_memory, and of data that is surely not on the GPU."""
    pinned = script.argument(loader, "pin_memory", 7)
    if script.has_stars(loader) or (pinned is not None and literal(pinned) is not False):
        return False
    makers = (script.argument(loader, "dataset", 0), script.argument(loader, "collate_fn", 6))
    return not any(_may_be_on_gpu(script, one) for one in makers if one is not None)


def _may_be_on_gpu(script: Script, given: cst.BaseExpression) -> bool:
    """Whether what makes the data, or puts a batch together, names a device."""
    made = script.value(given)
    made_by = script.value(made.func) if isinstance(made, cst.Call) else None
    text = " ".join(script.module.code_for_node(one) for one in (made, made_by) if one is not None)
    return any(word in text for word in ("cuda", "device", ".to("))


def _copy_to_gpu(script: Script, step: Step) -> cst.Call | None:
    """`images.to(device, non_blocking=True)`, `images.cuda()` of what the loop gives."""
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
    """Names of the batch and of its parts."""
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
    Rule("DLC141", "the training process reads its data itself", no_workers),
    Rule("DLC142", "batches are copied from memory that is not pinned", pageable_memory),
)
