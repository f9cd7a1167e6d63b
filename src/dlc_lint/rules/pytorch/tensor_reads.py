"""DLC111 to DLC114: a tensor's value is read where the compiler would have gone on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.pytorch.training_loop import logs_every_step, reads_for, shows_every_step
from dlc_lint.rules.rule import Rule
from dlc_lint.script.models import compiled_code, in_code, is_tensor, uses_xla
from dlc_lint.script.script import attribute
from dlc_lint.script.training_steps import every_step, guarded, steps, syncs_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script
    from dlc_lint.script.training_steps import Step

CONVERSIONS = {"float", "int", "bool"}
REDUCTIONS = {"any", "all", "sum", "mean", "max", "min", "norm", "isnan", "isinf", "equal", "item"}


def reads_value(script: Script, call: cst.Call) -> bool:
    """Recognise `x.item()`; `x.tolist()`, `x.numpy()`, `float(x)` if x is known to be a tensor."""
    name = attribute(call.func)
    if name == "item" and not call.args:
        return True
    if name in ("tolist", "numpy") and isinstance(call.func, cst.Attribute):
        return is_tensor(script, call.func.value)
    return script.is_one_of(call.func, CONVERSIONS) and len(call.args) == 1 and is_tensor(script, call.args[0].value)


def value_in_model(script: Script) -> Iterator[Hit]:
    """Find DLC111."""
    code = compiled_code(script)
    for call in script.all(cst.Call):
        function = in_code(script, call, code)
        if function is None or not reads_value(script, call) or guarded(script, call, function.body):
            continue
        yield Hit(
            call,
            f"{script.code(call)} reads a tensor's value in the model, which breaks its graph here; keep it a tensor",
        )


def value_in_step(script: Script) -> Iterator[Hit]:
    """Find DLC112."""
    if not uses_xla(script):
        return
    found, code = steps(script), compiled_code(script)
    # These rules say it already.
    logged = [hit.node for say in (logs_every_step, shows_every_step) for hit in say(script)]
    bars = [one for one in logged if isinstance(one, cst.Call)]
    logged += [read for bar in bars for step in found for read in reads_for(script, bar, step)]
    said = None
    for call in script.all(cst.Call):
        if in_code(script, call, code) or not reads_value(script, call) or script.around(call, cst.Lambda):
            continue
        statement = script.around(call, cst.SimpleStatementLine, cst.If, cst.While)
        if statement is said or any(one in logged for one in (call, *script.ancestors(call))):
            continue
        if any(_cuts(script, call, step) for step in found):
            said = statement
            yield Hit(
                call,
                f"{script.code(call)} makes XLA run the step up to here and wait, in each step; keep "
                "tensors, and read them every some steps or in xm.add_step_closure",
            )


def _cuts(script: Script, call: cst.Call, step: Step) -> bool:
    """Return whether reading it cuts the step: after the step's barrier the value is there."""
    return every_step(script, call, step) and not syncs_before(script, call, step.body)


def print_in_model(script: Script) -> Iterator[Hit]:
    """Find DLC113."""
    for function in compiled_code(script):
        for call in script.inside(function.body, cst.Call):
            if script.function(call) is not function or not script.is_one_of(call.func, {"print"}):
                continue
            if not guarded(script, call, function.body):
                yield Hit(
                    call,
                    "print in the model breaks its graph here; print outside of it, or behind `if not "
                    "torch.compiler.is_compiling()`",
                )


def branch_on_tensor(script: Script) -> Iterator[Hit]:
    """Find DLC114."""
    code = compiled_code(script)
    decisions: list[cst.If | cst.Assert] = [*script.all(cst.If), *script.all(cst.Assert)]
    for node in decisions:
        function = in_code(script, node, code)
        if function is None or not _decided_by_tensor(script, node.test) or guarded(script, node, function.body):
            continue
        kind = "assert" if isinstance(node, cst.Assert) else "if"
        yield Hit(
            node.test,
            f"`{kind} {script.code(node.test)}` depends on a tensor's value, which breaks the "
            "graph here; use torch.where, or decide by what Python knows",
        )


def _decided_by_tensor(script: Script, test: cst.BaseExpression) -> bool:
    """Recognise a reduction to one value: `(x > 0).any()`, `torch.isnan(x).any()`, `x.sum() > 0`."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _decided_by_tensor(script, test.expression)
    if isinstance(test, cst.BooleanOperation):
        return _decided_by_tensor(script, test.left) or _decided_by_tensor(script, test.right)
    if isinstance(test, cst.Comparison):
        return is_tensor(script, test) and any(_reduction(script, one) for one in script.inside(test, cst.Call))
    return isinstance(test, cst.Call) and _reduction(script, test) and is_tensor(script, test)


def _reduction(script: Script, call: cst.Call) -> bool:
    name = attribute(call.func)
    return (
        name in REDUCTIONS
        and name != "item"
        and (is_tensor(script, call) or script.name(call.func).startswith("torch."))
    )


RULES = (
    Rule("DLC111", "the model reads a tensor's value", value_in_model),
    Rule("DLC112", "a training step on XLA reads a tensor's value", value_in_step),
    Rule("DLC113", "the model prints", print_in_model),
    Rule("DLC114", "the model branches on a tensor's value", branch_on_tensor),
)
