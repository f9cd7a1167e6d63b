"""The DataLoaders of a PyTorch script that it trains from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.call_graph import names_reached
from dlc_lint.script.script import attribute, literal, remembered, root
from dlc_lint.script.training_steps import BACKWARD, backward_calls, calls_of, nearest_loop, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Loop, Script

LOADER = "torch.utils.data.DataLoader"
EVALUATION = ("test", "eval", "valid", "val_")
SHOWS = {"size", "format", "numpy", "shape"}
WRAPPERS = {
    "enumerate", "tqdm.tqdm", "tqdm", "zip", "iter", "tqdm.trange", "itertools.islice", "rich.progress.track",
}  # fmt: skip


@remembered
def training_loaders(script: Script) -> list[cst.Call]:
    """Return each `DataLoader(...)` that shuffles, has "train" in its name, or feeds a training step's loop."""
    iterated = {id(one) for step in steps(script) for one in loaders_of(script, step.loop)}
    return [one for one in script.calls(LOADER) if id(one) in iterated or _meant_for_training(script, one)]


def _meant_for_training(script: Script, call: cst.Call) -> bool:
    named = _words(script, call)
    if not ("train" in named or _shuffles(script, call)) or for_evaluation(script, call):
        return False
    return not _only_looked_at(script, call)


def for_evaluation(script: Script, call: cst.Call) -> bool:
    """Return whether the script calls it so."""
    return any(word in _words(script, call) for word in EVALUATION)


def _only_looked_at(script: Script, call: cst.Call) -> bool:
    """Return whether all that the script does with the loader is to look at its batches."""
    above = script.parent(call)
    target = above.targets[0].target if isinstance(above, cst.Assign) and len(above.targets) == 1 else None
    if not isinstance(target, cst.Name):
        return False
    uses = [one for one in script.all(cst.Name) if one.value == target.value and one is not target]
    uses = [one for one in uses if call in script.values(one) and not isinstance(script.parent(one), cst.AssignTarget)]
    return bool(uses) and all(_looks(script, one) for one in uses)


def _looks(script: Script, use: cst.CSTNode) -> bool:
    above = script.parent(use)
    if isinstance(above, cst.For) and above.iter is use:
        return _trains_nothing(script, above)
    call = script.parent(above) if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return isinstance(above, cst.Attribute) and above.attr.value in ("dataset", "batch_size")
    if script.is_one_of(call.func, {"iter"}):
        return not any(_takes_in_loop(script, one) for one in script.all(cst.Call))
    return script.is_one_of(call.func, {"len", "print"}) or (
        script.is_one_of(call.func, WRAPPERS) and _looks(script, call)
    )


def _takes_in_loop(script: Script, call: cst.Call) -> bool:
    """Recognise `next(batches)` again and again."""
    takes = script.is_one_of(call.func, {"next"}) or attribute(call.func) == "next"
    return takes and nearest_loop(script, call) is not None


def _trains_nothing(script: Script, loop: cst.For) -> bool:
    """Recognise a loop for one batch, or without gradients, or in which nothing is called that could train."""
    last = loop.body.body[-1] if loop.body.body else None
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Break):
        return True
    if _without_gradients(script, loop):
        return True
    if backward_calls(script):
        return not (names_reached(script, loop.body) & set(BACKWARD))
    calls = list(script.inside(loop.body, cst.Call))
    return all(script.is_one_of(one.func, {"print", "len"}) or attribute(one.func) in SHOWS for one in calls)


def _without_gradients(script: Script, loop: cst.For) -> bool:
    """Recognise code below `with torch.no_grad():`, or in a function with `@torch.no_grad()`."""
    around: list[cst.CSTNode] = []
    for one in script.ancestors(loop):
        around += [item.item for item in one.items] if isinstance(one, cst.With) else []
        around += [part.decorator for part in one.decorators] if isinstance(one, cst.FunctionDef) else []
    return any("no_grad" in script.code(one) or "inference_mode" in script.code(one) for one in around)


def _shuffles(script: Script, call: cst.Call) -> bool:
    return literal(script.argument(call, "shuffle", 2)) is True


def _words(script: Script, call: cst.Call) -> str:
    """Return what the script calls it."""
    above = script.parent(call)
    words = []
    if isinstance(above, cst.Assign):
        words = [script.code(one.target) for one in above.targets]
    function = script.function(call)
    if isinstance(above, cst.Return) and function is not None:
        words = [function.name.value]
    return " ".join(words).lower()


def loaders_of(script: Script, loop: Loop | None) -> list[cst.Call]:
    """Return the DataLoaders that a loop runs over, also below enumerate, tqdm, names and parameters."""
    return list(_loaders(script, loop.iter)) if isinstance(loop, cst.For) else []


def _loaders(script: Script, node: cst.CSTNode | None, most: int = 8) -> Iterator[cst.Call]:
    value = script.value(node)
    if not most:
        return
    if isinstance(value, cst.Param):
        for given in _given(script, value):
            found = _loaders(script, given, most - 1)
            yield from (one for one in found if not for_evaluation(script, one))
    if not isinstance(value, cst.Call):
        return
    if script.is_one_of(value.func, {LOADER}):
        yield value
    elif value.args and (script.is_one_of(value.func, WRAPPERS) or "DeviceLoader" in script.code(value.func)):
        yield from _loaders(script, value.args[0].value, most - 1)


def _given(script: Script, param: cst.Param) -> Iterator[cst.BaseExpression]:
    """Yield what calls of a function give for a parameter."""
    function = script.function(param)
    names = [one.name.value for one in function.params.params if one.name.value != "self"] if function else []
    if function is None or param.name.value not in names:
        return
    for call in calls_of(script, function):
        given = script.argument(call, param.name.value, names.index(param.name.value))
        if given is not None and not script.has_stars(call):
            yield given


def parallel_loader(script: Script) -> bool:
    """Return whether a loader of torch_xla, or of a library on top of it, ends each step itself."""
    words = ("MpDeviceLoader", "ParallelLoader", "per_device_loader")
    return any(attribute(call.func) in words or script.code(call.func) in words for call in script.all(cst.Call))


def runs_over_parallel_loader(script: Script, loop: cst.CSTNode | None) -> bool:
    """Return whether this loop gets its batches from such a loader."""
    if not isinstance(loop, cst.For):
        return False
    node: cst.CSTNode | None = loop.iter
    for _ in range(8):
        node = script.value(node)
        if not isinstance(node, cst.Call):
            return False
        if "DeviceLoader" in script.code(node.func) or attribute(node.func) == "per_device_loader":
            return True
        if isinstance(root(node.func), cst.Name) and node.args and script.is_one_of(node.func, WRAPPERS):
            node = node.args[0].value
        else:
            return False
    return False
