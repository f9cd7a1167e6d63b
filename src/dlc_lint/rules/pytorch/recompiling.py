"""DLC131, DLC133, DLC135, DLC137: a model that compiles again and again, or not at all, or loses its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.call_graph import is_called
from dlc_lint.script.models import attributes, compiled_code, has_layers, own_attribute
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.training_steps import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script


def counter_in_model(script: Script) -> Iterator[Hit]:
    """Find DLC131."""
    for function in compiled_code(script):
        around = script.around(function, cst.ClassDef)
        if around is None:
            continue
        known = attributes(script, around)
        changes: list[cst.AugAssign | cst.Assign] = [*script.inside(function.body, cst.AugAssign)]
        for node in (*changes, *script.inside(function.body, cst.Assign)):
            name = _changed(script, node)
            numbers = [literal(value) for value in known.get(name, [])] if name else []
            is_number = any(type(one) in (int, float) for one in numbers)
            if is_number and not guarded(script, node, function.body):
                yield Hit(
                    node,
                    f"self.{name} is another number in each step, and the compiled code is only for the "
                    "one it saw; make it a tensor (register_buffer), or count outside of the model",
                )


def _changed(script: Script, node: cst.AugAssign | cst.Assign) -> str:
    """Return `x` for `self.x += 1` and `self.x = self.x + 1`."""
    if isinstance(node, cst.AugAssign):
        return own_attribute(node.target)
    name = own_attribute(node.targets[0].target) if len(node.targets) == 1 else ""
    value = node.value
    sides = (value.left, value.right) if isinstance(value, cst.BinaryOperation) else ()
    return name if any(own_attribute(side) == name for side in sides) else ""


def double_backward(script: Script) -> Iterator[Hit]:
    """Find DLC133."""
    for call in script.all(cst.Call):
        is_gradient = script.is_one_of(call.func, {"torch.autograd.grad"}) or attribute(call.func) == "backward"
        if is_gradient and literal(script.argument(call, "create_graph")) is True and is_called(script, call):
            yield Hit(
                script.arg(call, "create_graph"),
                "a compiled model has no second derivative: the models of this gradient stay eager; "
                "compile the others, or leave the compiler off",
            )


def unused_compile(script: Script) -> Iterator[Hit]:
    """Find DLC135."""
    for call in script.calls("torch.compile"):
        given = script.argument(call, "model", 0)
        if given is not None and isinstance(script.parent(call), cst.Expr):
            name = script.code(given)
            yield Hit(
                call,
                f"torch.compile returns the compiled model, and nothing keeps it: {name} stays eager; "
                f"write {name} = torch.compile({name}), or {name}.compile()",
            )


def numpy_random(script: Script) -> Iterator[Hit]:
    """Find DLC137."""
    for function in compiled_code(script):
        around = script.around(function, cst.ClassDef)
        if around is not None and not has_layers(script, around):
            # Perhaps it only makes signals.
            continue
        for call in script.inside(function.body, cst.Call):
            name = script.name(call.func)
            if not name.startswith("numpy.random.") or script.function(call) is not function:
                continue
            if not guarded(script, call, function.body):
                yield Hit(
                    call,
                    f"{script.code(call.func)} in the model breaks its graph, or is drawn by PyTorch's generator, "
                    "whatever seed NumPy has; use torch.rand or torch.randint",
                )


RULES = (
    Rule("DLC131", "the model counts in a Python number", counter_in_model),
    Rule("DLC133", "a second derivative through the model", double_backward),
    Rule("DLC135", "the compiled model is thrown away", unused_compile),
    Rule("DLC137", "the model draws random numbers from NumPy", numpy_random),
)
