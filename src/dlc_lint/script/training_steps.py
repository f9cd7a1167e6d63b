"""The training steps of a PyTorch script: the code that runs once for each batch, with backward in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from dlc_lint.script.script import attribute, literal, remembered, root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Loop, Script

BACKWARD = ("backward", "manual_backward")
# Written around the body of a step or of `forward` without a choice: they are true while it trains.
CALLS_TRUE_IN_TRAINING = {"is_grad_enabled"}
SYNCS = {"torch_xla.core.xla_model.mark_step", "torch_xla.sync", "torch_xla.core.xla_model.unlazy"}
DEVICES = ("torch_xla.core.xla_model.xla_device", "torch_xla.device", "torch_xla.core.xla_model.xla_real_devices")
STEP_BLOCKS = ("torch_xla.step", "torch_xla.compile", "torch_xla.experimental.")
TRAINING_ARGUMENTS = (
    "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig",
    "transformers.training_args.TrainingArguments",
)  # fmt: skip


class Step(NamedTuple):
    """`body` runs once for each step; `loop` runs it, and is None if a framework's or another file's loop does."""

    body: cst.CSTNode
    loop: Loop | None


@remembered
def backward_calls(script: Script) -> list[cst.Call]:
    """Return `loss.backward()`, `accelerator.backward(loss)`; not what functions of autograd call."""
    found = [call for call in script.all(cst.Call) if attribute(call.func) in BACKWARD]
    return [call for call in found if not _in_backward(script, call)]


def _in_backward(script: Script, call: cst.Call) -> bool:
    function = script.function(call)
    return (function is not None and function.name.value == "backward") or (
        isinstance(root(call.func), cst.Name) and root(call.func).value == "super"  # type: ignore[attr-defined]
    )


def loss_of(backward: cst.Call) -> cst.Name | None:
    """Return `loss` of `loss.backward()`, `scaler.scale(loss).backward()` and `accelerator.backward(loss)`."""
    given = [arg.value for arg in backward.args if arg.keyword is None]
    owner = backward.func.value if isinstance(backward.func, cst.Attribute) else None
    if isinstance(owner, cst.Call) and attribute(owner.func) == "scale" and len(owner.args) == 1:
        owner = owner.args[0].value
    found = given[0] if given else owner
    return found if isinstance(found, cst.Name) else None


@remembered
def losses_of(script: Script) -> set[str]:
    """Return the names on which backward is called."""
    found = {one.value for one in map(loss_of, backward_calls(script)) if one is not None}
    for call in backward_calls(script):
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        found |= {owner.value} if isinstance(owner, cst.Name) else set()
    return found - {"accelerator", "self", "model", "fabric"}


@remembered
def steps(script: Script) -> list[Step]:
    """Return the training steps of the script, each once."""
    found: dict[int, Step] = {}
    for call in backward_calls(script):
        for step in _steps_of(script, call):
            found.setdefault(id(step.body), step)
    return list(found.values())


def _steps_of(script: Script, call: cst.Call) -> Iterator[Step]:
    loop = nearest_loop(script, call)
    if loop is not None:
        yield Step(loop.body, loop)
        # The inner loop may run over the parts of a batch.
        outer = nearest_loop(script, loop)
        if outer is not None and _has_optimizer_step(script, outer.body, loop):
            yield Step(outer.body, outer)
        return
    function = script.function(call)
    if function is None:
        return
    # A closure for `optimizer.step(closure)`.
    defined_in = nearest_loop(script, function)
    if defined_in is not None:
        yield Step(defined_in.body, defined_in)
        return
    callers = [nearest_loop(script, one) for one in calls_of(script, function)]
    loops = [one for one in callers if one is not None]
    if loops:
        yield Step(function.body, loops[0])
        for one in loops:
            yield Step(one.body, one)


@remembered
def nearest_loop(script: Script, node: cst.CSTNode) -> Loop | None:
    """Return the loop whose body runs `node`, in the same function."""
    below = node
    for one in script.ancestors(node):
        if isinstance(one, (cst.FunctionDef, cst.ClassDef)):
            return None
        if isinstance(one, (cst.For, cst.While)) and below is one.body:
            return one
        below = one
    return None


def _has_optimizer_step(script: Script, body: cst.CSTNode, apart_from: cst.CSTNode) -> bool:
    inner = set(map(id, script.inside(apart_from, cst.Call)))
    return any(is_optimizer_step(one) for one in script.inside(body, cst.Call) if id(one) not in inner)


def is_optimizer_step(call: cst.Call) -> bool:
    """Recognise `optimizer.step()`, `scaler.step(optimizer)`, `xm.optimizer_step(...)`; not `scheduler.step()`."""
    name = attribute(call.func)
    if name == "optimizer_step":
        return True
    owner = call.func.value if name == "step" and isinstance(call.func, cst.Attribute) else None
    word = (owner.value if isinstance(owner, cst.Name) else attribute(owner)).lower()
    return "opt" in word or "scaler" in word or word.endswith("_steps")


def calls_of(script: Script, function: cst.FunctionDef) -> list[cst.Call]:
    """Return the calls of a function or method of this script, by its name."""
    name = function.name.value
    method = isinstance(script.parent(script.parent(function) or function), cst.ClassDef)
    found = []
    for call in script.all(cst.Call):
        if method:
            called = attribute(call.func) == name
        else:
            called = isinstance(call.func, cst.Name) and function in script.values(call.func)
        if called:
            found.append(call)
    return found


def every_step(script: Script, node: cst.CSTNode, step: Step) -> bool:
    """Return whether `node` runs in each step: behind no choice, and not in a function that is only defined there."""
    above = list(script.ancestors(node))
    if not any(one is step.body for one in above):
        return False
    if script.function(node) is not script.function(step.body):
        return False
    return not guarded(script, node, step.body) and not _behind_exit(script, node, step)


def _behind_exit(script: Script, node: cst.CSTNode, step: Step) -> bool:
    """Recognise `if i % 100: continue` before it, which decides as well; after `if i >= n: break` nothing goes on."""
    for one in script.inside(step.body, cst.If):
        if any(True for _ in script.inside(one.body, cst.Continue)) and script.before(one, node):
            return True
    return False


def over_epochs(script: Script, step: Step) -> bool:
    """Return whether each turn of the loop is an epoch, not a batch."""
    loop = step.loop
    if not isinstance(loop, cst.For):
        return False
    words = f"{script.code(loop.target)} {script.code(loop.iter)}".lower()
    return "epoch" in words


def guarded(script: Script, node: cst.CSTNode, around: cst.CSTNode) -> bool:
    """Return whether an `if`, `else`, `except`, `and`/`or` or `match` between the two decides about it."""
    below: cst.CSTNode = node
    for one in script.ancestors(node):
        if one is around:
            return False
        if _decides(one, below):
            return True
        below = one
    return False


def _decides(one: cst.CSTNode, below: cst.CSTNode) -> bool:
    if isinstance(one, cst.If):
        return below is not one.test and not (below is one.body and _true_in_training(one.test))
    if isinstance(one, cst.IfExp):
        return below is not one.test
    if isinstance(one, cst.BooleanOperation):
        return below is one.right
    return isinstance(one, (cst.ExceptHandler, cst.Match, cst.Finally, cst.Assert))


def _true_in_training(test: cst.BaseExpression) -> bool:
    """Recognise `if self.training`, `if labels is not None`, `if True`."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        name = test.left.value if isinstance(test.left, cst.Name) else ""
        wanted = name in ("labels", "targets", "target", "label", "y")
        none = isinstance(only.comparator, cst.Name) and only.comparator.value == "None"
        return wanted and none and isinstance(only.operator, cst.IsNot)
    if isinstance(test, cst.Call):
        return attribute(test.func) in CALLS_TRUE_IN_TRAINING
    return attribute(test) == "training" or (isinstance(test, cst.Name) and test.value == "True")


def is_sync(script: Script, call: cst.Call) -> bool:
    """Recognise `xm.mark_step()`, `torch_xla.sync()`, `xm.optimizer_step(optimizer, barrier=True)`."""
    if script.is_one_of(call.func, SYNCS):
        return True
    return attribute(call.func) == "optimizer_step" and literal(script.argument(call, "barrier", 1)) is True


def syncs_before(script: Script, node: cst.CSTNode, body: cst.CSTNode) -> bool:
    """Return whether a barrier stands before `node` in the same body."""
    calls = [one for one in script.inside(body, cst.Call) if is_sync(script, one)]
    return any(script.before(one, node) for one in calls)


@remembered
def asks_for_xla_device(script: Script) -> bool:
    """Return whether the script itself puts its model on an XLA device."""
    return any(True for _ in script.calls(*DEVICES))
