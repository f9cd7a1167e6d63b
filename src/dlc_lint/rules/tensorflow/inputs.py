"""DLC211 to DLC213: shapes of batches that XLA compiles anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.datasets import for_evaluation, pipeline, trained_from
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.tf_functions import functions_named, uses_jit
from dlc_lint.script.training_steps import nearest_loop

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


def padded_texts(script: Script) -> Iterator[Hit]:
    """Find DLC213."""
    if not uses_jit(script):
        return
    for call in script.all(cst.Call):
        padding = script.argument(call, "padding")
        if (
            padding is not None
            and literal(padding) in (True, "longest")
            and "token" in script.code(call.func).lower()
            and script.argument(call, "pad_to_multiple_of") is None
            and _gets_parts(script, call)
        ):
            yield Hit(
                padding,
                f"padding={script.code(padding)} pads to the longest of the texts that it gets, and XLA compiles each "
                'length anew; use padding="max_length" with max_length and truncation=True',
            )
    for call in script.all(cst.Call):
        if attribute(call.func) == "prepare_tf_dataset" and _pads_batches(script, call):
            yield Hit(
                script.arg(call, "tokenizer"),
                "this tokenizer pads each batch to its longest text, and XLA compiles each length anew; "
                'tokenize with padding="max_length", or give a collate_fn with pad_to_multiple_of',
            )


def _gets_parts(script: Script, call: cst.Call) -> bool:
    """Return whether a tokenizer gets some texts after others: all texts together have one length."""
    if nearest_loop(script, call) is not None:
        return True
    function = script.around(call, cst.FunctionDef, cst.Lambda)
    if function is None:
        return False
    if isinstance(function, cst.FunctionDef) and function.name.value.startswith("collat"):
        return True
    maps = [one for one in script.all(cst.Call) if attribute(one.func) == "map" and one.args]
    given = [one for one in maps if function in functions_named(script, one.args[0].value)]
    return any(literal(script.argument(one, "batched")) is True and _in_parts(script, one) for one in given)


def _in_parts(script: Script, call: cst.Call) -> bool:
    """Return whether `map` hands over some rows at a time: not all of them, as with batch_size=len(rows) or -1."""
    size = script.argument(call, "batch_size")
    at_once = isinstance(size, cst.Call) and script.is_one_of(size.func, {"len"})
    return not at_once and (size is None or literal(size) not in (None, -1))


def _pads_batches(script: Script, call: cst.Call) -> bool:
    if script.argument(call, "tokenizer") is None or script.argument(call, "collate_fn") is not None:
        return False
    return all(literal(script.argument(one, "padding")) != "max_length" for one in script.all(cst.Call))


RULES = (
    Rule("DLC211", "the last batch of the training data is smaller", last_batch),
    Rule("DLC212", "elements are padded to the longest of their batch", dynamic_padding),
    Rule("DLC213", "texts are padded to the longest of their batch", padded_texts),
)
