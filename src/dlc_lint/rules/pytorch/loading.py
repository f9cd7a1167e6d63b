"""DLC141: batches come too late for a compiled step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.loaders import training_loaders
from dlc_lint.script.script import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

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


RULES = (Rule("DLC141", "the training process reads its data itself", no_workers),)
