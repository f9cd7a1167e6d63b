"""DLC211, DLC212: shapes of batches that XLA compiles anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.graph_functions import uses_jit
from dlc_lint.script.script import attribute, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

SAMPLES = ("unbatch", "take")  # for looking at some examples
FITS = ("fit", "experimental_distribute_dataset", "fit_generator")
EVALUATION = ("eval", "valid", "test", "predict", "held", "val_", "dev")


def last_batch(script: Script) -> Iterator[Hit]:
    """DLC211."""
    if not uses_jit(script):
        return
    for call in script.all(cst.Call):
        if attribute(call.func) not in ("batch", "padded_batch") or script.has_stars(call):
            continue
        drop = script.argument(call, "drop_remainder", 1 if attribute(call.func) == "batch" else None)
        if (
            (drop is None or literal(drop) is False)
            and _of_training_data(script, call)
            and literal(script.argument(call, "batch_size", 0)) != 1
        ):
            yield Hit(
                call,
                "the last batch may be smaller, which XLA compiles once more; set drop_remainder=True "
                "for the training data",
            )


def _of_training_data(script: Script, call: cst.Call) -> bool:
    names, is_dataset = _chain(script, call)
    if not is_dataset or "repeat" in names:
        return False
    words = _where(script, call)
    return not any(word in words for word in (*EVALUATION, *SAMPLES)) and (
        "train" in words or _trained_from(script, call)
    )


def _trained_from(script: Script, call: cst.Call) -> bool:
    """Whether it is returned, given to `fit`, or what a loop runs over; else somebody only looks at it."""
    statement = script.around(call, cst.Assign, cst.Return, cst.For)
    if isinstance(statement, cst.Assign):
        names = {one.target.value for one in statement.targets if isinstance(one.target, cst.Name)}
        given = [one for one in script.all(cst.Call) if attribute(one.func) in FITS]
        looped = [one.iter for one in script.all(cst.For)]
        return any(_is_named(one, names) for one in (*looped, *(arg.value for fit in given for arg in fit.args)))
    return isinstance(statement, cst.Return) or (
        isinstance(statement, cst.For) and script.around(call, cst.For) is statement
    )


def _is_named(node: cst.CSTNode, names: set[str]) -> bool:
    """The name itself, or in `enumerate(name)`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.args:
        node = node.args[0].value
    return isinstance(node, cst.Name) and node.value in names


def _chain(script: Script, call: cst.Call) -> tuple[list[str], bool]:
    """The methods before this one, and whether they begin with a tf.data.Dataset."""
    names: list[str] = []
    node: cst.CSTNode | None = call
    for _ in range(30):
        if isinstance(node, cst.Name):
            name = node  # bound again and again: `dataset = dataset.map(...)`
            earlier = [
                one for one in script.values(name) if one is not None and script.place(one)[2:] < script.place(name)[:2]
            ]
            node = earlier[-1] if earlier else None
        if not isinstance(node, cst.Call):
            return names, False
        if script.name(node.func).startswith("tensorflow.data."):
            return names, True
        names.append(attribute(node.func))
        node = node.func.value if isinstance(node.func, cst.Attribute) else None
    return names, False


def _where(script: Script, call: cst.Call) -> str:
    """Words around it: the name that it gets, and the function it is in."""
    words = []
    for one in script.ancestors(call):
        if isinstance(one, cst.Assign):
            words += [script.code(target.target) for target in one.targets]
        if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute):
            words.append(one.func.attr.value)
        if isinstance(one, cst.FunctionDef):
            words.append(one.name.value)
            break
    return " ".join(words).lower()


def dynamic_padding(script: Script) -> Iterator[Hit]:
    """DLC212."""
    if not uses_jit(script):
        return
    for call in script.all(cst.Call):
        if (
            attribute(call.func) == "padded_batch"
            and _unknown_shapes(script, call)
            and not any(word in _where(script, call) for word in EVALUATION)
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
