"""DLC211, DLC212: shapes of batches that XLA compiles anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.datasets import for_evaluation, pipeline, trained_from
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.tf_functions import uses_jit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

# Examples to train from, of Keras' data sets.
EXAMPLES = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000, "cifar100": 50_000, "imdb": 25_000}


def last_batch(script: Script) -> Iterator[Hit]:
    """Find DLC211."""
    if not uses_jit(script):
        return
    for call in script.all(cst.Call):
        if attribute(call.func) not in ("batch", "padded_batch") or script.has_stars(call):
            continue
        drop = script.argument(call, "drop_remainder", 1 if attribute(call.func) == "batch" else None)
        if (drop is None or literal(drop) is False) and trained_from(script, call) and not _divides(script, call):
            yield Hit(
                call,
                "the last batch may be smaller, which XLA compiles once more; set drop_remainder=True "
                "for the training data",
            )


def _divides(script: Script, call: cst.Call) -> bool:
    """Return whether there is a whole number of batches: the data set is a known one, or cut by `take`."""
    size = literal(script.value(script.argument(call, "batch_size", 0)))
    if not isinstance(size, int) or size < 1:
        return False
    cuts = [
        literal(script.argument(one, "count", 0)) for one in pipeline(script, call) if attribute(one.func) == "take"
    ]
    names = {script.name(one.func) for one in script.calls("keras.datasets.")}
    known = [EXAMPLES.get(name.split(".")[2], 1) for name in names] if len(names) == 1 and not cuts else cuts
    return size == 1 or (bool(known) and all(isinstance(one, int) and one % size == 0 for one in known))


def dynamic_padding(script: Script) -> Iterator[Hit]:
    """Find DLC212."""
    if not uses_jit(script):
        return
    for call in script.all(cst.Call):
        if (
            attribute(call.func) == "padded_batch"
            and _unknown_shapes(script, call)
            and not for_evaluation(script, call)
        ):
            yield Hit(
                call,
                "padded_batch pads to the longest element of the batch, and XLA compiles each length "
                "anew; give padded_shapes without None",
            )
    for call in script.calls("transformers.DataCollatorWithPadding", "transformers.DataCollatorForSeq2Seq"):
        padding = script.argument(call, "padding")
        tensorflow = literal(script.argument(call, "return_tensors")) == "tf"
        if (
            tensorflow
            and (padding is None or literal(padding) in (True, "longest"))
            and script.argument(call, "pad_to_multiple_of") is None
        ):
            yield Hit(
                call,
                "this collator pads each batch to its longest text, and XLA compiles each length "
                'anew; use padding="max_length" with max_length',
            )


def _unknown_shapes(script: Script, call: cst.Call) -> bool:
    shapes = script.argument(call, "padded_shapes", 1)
    if shapes is None:
        return not script.has_stars(call)
    return any(one.value == "None" for one in (shapes, *script.inside(shapes, cst.Name)) if isinstance(one, cst.Name))


RULES = (
    Rule("DLC211", "the last batch of the training data is smaller", last_batch),
    Rule("DLC212", "elements are padded to the longest of their batch", dynamic_padding),
)
