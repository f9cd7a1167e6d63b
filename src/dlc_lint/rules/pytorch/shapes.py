"""DLC101 to DLC104: shapes that change from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.loaders import LOADER, training_loaders
from dlc_lint.script.models import compiled_code, in_code, is_tensor, static_shapes, uses_xla
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.training_steps import TRAINING_ARGUMENTS, every_step, guarded, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

COLLATORS = {
    f"transformers.{name}"
    for name in ("DataCollatorWithPadding", "DataCollatorForSeq2Seq", "DataCollatorForTokenClassification")
}
EVALUATION = ("eval", "valid", "test", "predict", "generate", "infer", "held_out", "val_")
VALUE_DEPENDENT = {
    "nonzero", "masked_select", "unique", "unique_consecutive", "argwhere", "bincount",
}  # fmt: skip
# Examples to train from and to test with, of torchvision's data sets.
EXAMPLES = {
    "MNIST": (60_000, 10_000), "FashionMNIST": (60_000, 10_000), "KMNIST": (60_000, 10_000),
    "CIFAR10": (50_000, 10_000), "CIFAR100": (50_000, 10_000),
}  # fmt: skip
REMEDY_PADDING = 'pad to one length: padding="max_length" with max_length'


def dynamic_padding(script: Script) -> Iterator[Hit]:
    """Find DLC101."""
    if not static_shapes(script) or not _trains(script):
        return
    for call in script.all(cst.Call):
        padding = script.argument(call, "padding")
        collator = script.is_one_of(call.func, COLLATORS)
        if collator and (padding is None or literal(padding) in (True, "longest")) and not _bounded(script, call):
            yield Hit(
                call,
                f"{attribute(call.func) or script.code(call.func)} pads each batch to its longest "
                f"text, so each length is compiled anew; {REMEDY_PADDING}",
            )
        elif (
            not collator
            and padding is not None
            and _pads_to_longest(script, call, padding)
            and not _evaluates(script, call)
            and not _one_length(script, call)
        ):
            yield Hit(
                padding,
                f"padding={script.code(padding)} pads to the longest text of the batch, so each length "
                f"is compiled anew; {REMEDY_PADDING}",
            )


def _bounded(script: Script, call: cst.Call) -> bool:
    return script.argument(call, "pad_to_multiple_of") is not None or script.has_stars(call)


def _pads_to_longest(script: Script, call: cst.Call, padding: cst.BaseExpression) -> bool:
    if literal(padding) == "longest":
        return not _bounded(script, call)
    words = script.code(call.func).lower()
    return literal(padding) is True and "token" in words and not _bounded(script, call)


def _one_length(script: Script, call: cst.Call) -> bool:
    """Return whether its function pads to one length elsewhere, or it gets all texts at once or one by one."""
    function = script.function(call)
    if function is None:
        return False
    if _one_text(script, call):
        return True
    if any(literal(script.argument(one, "padding")) == "max_length" for one in script.inside(function, cst.Call)):
        return True
    maps = [one for one in script.all(cst.Call) if attribute(one.func) == "map" and one.args]
    given = [one for one in maps if function in script.values(one.args[0].value)]
    sizes = [script.argument(one, "batch_size") for one in given]
    at_once = all(isinstance(size, cst.Call) and script.is_one_of(size.func, {"len"}) for size in sizes)
    return bool(given) and (at_once or all(literal(script.argument(one, "batched")) in (..., False) for one in given))


def _one_text(script: Script, call: cst.Call) -> bool:
    """Recognise `[tokenizer(text) for text in texts]`, which pads nothing."""
    first = call.args[0].value if call.args else None
    lists = [one for one in script.ancestors(call) if isinstance(one, (cst.ListComp, cst.GeneratorExp))]
    names = {one.value for made in lists for one in script.inside(made.for_in.target, cst.Name)}
    return isinstance(first, cst.Name) and first.value in names


def _trains(script: Script) -> bool:
    """Return whether it has a training step, a loader or a trainer, or puts batches together for one elsewhere."""
    if steps(script) or any(True for _ in script.calls(LOADER, *TRAINING_ARGUMENTS)):
        return True
    return any(one.name.value.startswith(("collat", "token", "preprocess")) for one in script.all(cst.FunctionDef))


def _evaluates(script: Script, call: cst.Call) -> bool:
    function = script.function(call)
    name = function.name.value.lower() if function is not None else ""
    if any(word in name for word in EVALUATION):
        return True
    # At the top of a script or its main function it pads all texts together, once.
    return (
        not any(isinstance(one, (cst.FunctionDef, cst.Lambda, cst.For, cst.While)) for one in script.ancestors(call))
        or name == "main"
    )


def last_batch(script: Script) -> Iterator[Hit]:
    """Find DLC102."""
    if not static_shapes(script):
        return
    for call in training_loaders(script):
        drop = script.argument(call, "drop_last", 8)
        if script.has_stars(call) or script.argument(call, "batch_sampler", 4) is not None:
            continue
        if _one_by_one(script, call) or _samples_without_end(script, call) or _divides(script, call):
            continue
        if drop is None or literal(drop) is False:
            yield Hit(
                call,
                "the last batch may be smaller, which compiles the step once more; set drop_last=True "
                "for the training data",
            )


def _one_by_one(script: Script, call: cst.Call) -> bool:
    """Return whether a batch_size is 1 or None, which is no batching."""
    size = script.argument(call, "batch_size", 1)
    return size is None or literal(size) in (1, None)


def _samples_without_end(script: Script, call: cst.Call) -> bool:
    """Return whether its sampler may draw for ever: it has a number of its own, or is not torch's."""
    given = script.argument(call, "sampler", 3)
    made = _choices(script, given) if given is not None else []
    return any(literal(one) is not None and not _draws_each_once(script, one) for one in made)


def _choices(script: Script, node: cst.CSTNode | None) -> list[cst.CSTNode | None]:
    """Return what an expression may be: both sides of an `if`, and all that a name is bound to."""
    values = script.values(node) if isinstance(node, cst.Name) and node.value != "None" else [node]
    sides = [(one.body, one.orelse) if isinstance(one, cst.IfExp) else (one,) for one in values]
    return [side for both in sides for side in both]


def _draws_each_once(script: Script, sampler: cst.CSTNode | None) -> bool:
    return (
        isinstance(sampler, cst.Call)
        and script.name(sampler.func).startswith("torch.utils.data.")
        and script.argument(sampler, "num_samples") is None
    )


def _divides(script: Script, call: cst.Call) -> bool:
    """Return whether the data set has a whole number of batches, for all of its examples in one process."""
    data = script.value(script.argument(call, "dataset", 0))
    size = literal(script.value(script.argument(call, "batch_size", 1)))
    if not isinstance(data, cst.Call) or script.argument(call, "sampler", 3) is not None or not isinstance(size, int):
        return False
    name = script.name(data.func)
    known = EXAMPLES.get(name.rpartition(".")[2]) if name.startswith("torchvision.datasets.") else None
    if known is None or size < 1:
        return False
    trains = literal(script.argument(data, "train", 1)) is not False
    return known[0 if trains else 1] % size == 0


def value_dependent_shape(script: Script) -> Iterator[Hit]:
    """Find DLC103."""
    code = compiled_code(script)
    found = steps(script) if uses_xla(script) else []
    for node in (*script.all(cst.Call), *script.all(cst.Subscript)):
        what = _value_dependent(script, node)
        if not what:
            continue
        function = in_code(script, node, code)
        if function is not None and not guarded(script, node, function.body):
            yield Hit(
                node,
                f"{what} gives a shape that depends on values: the graph breaks here under inductor, "
                "and XLA compiles each size anew; use torch.where or multiply by the mask",
            )
        elif function is None and any(every_step(script, node, step) for step in found):
            yield Hit(
                node,
                f"{what} gives a shape that depends on values, so XLA compiles each size anew; use "
                "torch.where or multiply by the mask",
            )


def _value_dependent(script: Script, node: cst.CSTNode) -> str:
    """Return what it is called in the message; "" for everything else."""
    if isinstance(node, cst.Subscript):
        return f"the mask in {script.code(node)}" if _masked(script, node) else ""
    if not isinstance(node, cst.Call):
        return ""
    full, name = script.name(node.func), attribute(node.func)
    if full.startswith("torch.") and full.count(".") == 1 and full[6:] in VALUE_DEPENDENT:
        return f"torch.{full[6:]}"
    if full == "torch.where" and len(node.args) == 1:
        return "torch.where with one argument"
    if name in ("nonzero", "masked_select", "unique") and not full and is_tensor(script, node.func.value):  # type: ignore[attr-defined]
        return f".{name}()"
    return ""


def _masked(script: Script, node: cst.Subscript) -> bool:
    """Recognise `x[x > 0]`, `x[mask]` with `mask = x > 0`; not as a target, which becomes a `where`."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    above = script.parent(node)
    if isinstance(above, cst.AssignTarget) or (isinstance(above, cst.AugAssign) and above.target is node):
        return False
    index = node.slice[0].slice.value
    value = script.value(index)
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.BitInvert):
        value = script.value(value.expression)
    return isinstance(value, cst.Comparison) and is_tensor(script, value) and not _of_sizes(script, value)


def _of_sizes(script: Script, value: cst.CSTNode) -> bool:
    return any(one.value in ("shape", "size") for one in script.inside(value, cst.Name))


def varying_loop(script: Script) -> Iterator[Hit]:
    """Find DLC104."""
    for function in compiled_code(script):
        for loop in script.inside(function.body, cst.For):
            cause = _varying_count(script, loop.iter)
            if cause and not guarded(script, loop, function.body):
                yield Hit(
                    loop.iter,
                    f"the loop runs as often as {cause} says: each count is another graph; run a fixed "
                    "number of turns and mask the rest",
                )
        for waits in script.inside(function.body, cst.While):
            if is_tensor(script, waits.test) and not guarded(script, waits, function.body):
                yield Hit(
                    waits.test,
                    f"the loop runs until a tensor's value ({script.code(waits.test)}) ends it: each count "
                    "is another graph; run a fixed number of turns and mask the rest",
                )


def _varying_count(script: Script, iterated: cst.BaseExpression) -> str:
    if not isinstance(iterated, cst.Call) or not script.is_one_of(iterated.func, {"range"}):
        return ""
    for arg in iterated.args:
        value = script.value(arg.value)
        for call in (value, *script.inside(value, cst.Call)) if value is not None else ():
            if not isinstance(call, cst.Call):
                continue
            name = script.name(call.func)
            if name.startswith(("random.", "numpy.random.")):
                return f"{name}()"
            if attribute(call.func) == "item" and not call.args:
                return script.code(call)
            if name == "int" and call.args and is_tensor(script, call.args[0].value):
                return script.code(call)
        if isinstance(value, cst.Call) and is_tensor(script, value):
            return script.code(value)
    return ""


RULES = (
    Rule("DLC101", "texts are padded to the longest of their batch", dynamic_padding),
    Rule("DLC102", "the last batch of the training data is smaller", last_batch),
    Rule("DLC103", "a shape depends on values", value_dependent_shape),
    Rule("DLC104", "a loop in the model runs another number of times in each step", varying_loop),
)
