"""The DataLoaders of a PyTorch script that it trains from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.script import attribute, literal, remembered, root
from dlc_lint.script.steps import steps

if TYPE_CHECKING:
    from dlc_lint.script.script import Script

LOADER = "torch.utils.data.DataLoader"
EVALUATION = ("test", "eval", "valid", "val_")
WRAPPERS = {
    "enumerate", "tqdm.tqdm", "tqdm", "zip", "iter", "tqdm.trange", "itertools.islice", "rich.progress.track",
}  # fmt: skip


@remembered
def training_loaders(script: Script) -> list[cst.Call]:
    """`DataLoader(...)` with shuffle=True, of a name with "train" in it, or over which a training step's loop runs."""
    calls = list(script.calls(LOADER))
    iterated = {
        id(one) for step in steps(script) if isinstance(step.loop, cst.For) for one in _loaders(script, step.loop.iter)
    }
    named = {id(one): _words(script, one) for one in calls}
    chosen = [one for one in calls if id(one) in iterated or "train" in named[id(one)] or _shuffles(script, one)]
    return [one for one in chosen if id(one) in iterated or not any(word in named[id(one)] for word in EVALUATION)]


def _shuffles(script: Script, call: cst.Call) -> bool:
    return literal(script.argument(call, "shuffle", 2)) is True


def _words(script: Script, call: cst.Call) -> str:
    """What the script calls it."""
    above = script.parent(call)
    words = []
    if isinstance(above, cst.Assign):
        words = [script.code(one.target) for one in above.targets]
    function = script.function(call)
    if isinstance(above, cst.Return) and function is not None:
        words = [function.name.value]
    return " ".join(words).lower()


def _loaders(script: Script, node: cst.CSTNode | None) -> list[cst.Call]:
    """The DataLoader that a loop runs over, also below enumerate, tqdm and names."""
    found = []
    for _ in range(8):
        node = script.value(node)
        if not isinstance(node, cst.Call):
            break
        if script.is_one_of(node.func, {LOADER}):
            found.append(node)
            break
        wraps = script.is_one_of(node.func, WRAPPERS) or "DeviceLoader" in script.code(node.func)
        if not (wraps and node.args):
            break
        node = node.args[0].value
    return found


def parallel_loader(script: Script) -> bool:
    """Whether a loader of torch_xla, or of a library on top of it, ends each step itself."""
    words = ("MpDeviceLoader", "ParallelLoader", "per_device_loader")
    return any(attribute(call.func) in words or script.code(call.func) in words for call in script.all(cst.Call))


def runs_over_parallel_loader(script: Script, loop: cst.CSTNode | None) -> bool:
    """Whether this loop gets its batches from such a loader."""
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
