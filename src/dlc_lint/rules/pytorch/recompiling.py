"""DLC131 to DLC133, DLC135 to DLC138: a model that compiles again and again, or not at all, or loses its effects."""

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
    from collections.abc import Callable, Iterator

    from dlc_lint.script.script import Function, Script

HOOKS = {"register_forward_hook", "register_forward_pre_hook"}
GROWS = {"append", "extend", "insert"}


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


def growing_list(script: Script) -> Iterator[Hit]:
    """Find DLC132."""
    for call in script.all(cst.Call):
        if attribute(call.func) not in HOOKS or not call.args or _is_removed(script, call):
            continue
        hook = script.value(call.args[0].value)
        if isinstance(hook, (cst.FunctionDef, cst.Lambda)) and _appends_outside(script, hook):
            yield Hit(
                call,
                "this hook appends to a list, so the model is compiled anew in each step; register it "
                "only for the steps that need it, or write into a tensor",
            )
    for function in compiled_code(script):
        for call in script.inside(function.body, cst.Call):
            if (
                script.function(call) is function
                and _own_list(script, call, function)
                and not guarded(script, call, function.body)
            ):
                yield Hit(
                    call,
                    f"{script.code(call)} makes a list longer in each step, so the model is compiled anew; "
                    "return the value instead",
                )


def _is_removed(script: Script, call: cst.Call) -> bool:
    """Return whether the handle is kept, and the script removes handles: the hook is for some steps only."""
    removes = any(attribute(one.func) == "remove" and not one.args for one in script.all(cst.Call))
    return removes and not isinstance(script.parent(call), cst.Expr)


def _appends_outside(script: Script, hook: Function) -> bool:
    for call in script.inside(hook.body, cst.Call):
        if attribute(call.func) not in GROWS or not isinstance(call.func, cst.Attribute):
            continue
        owner = call.func.value
        if isinstance(owner, (cst.Attribute, cst.Subscript)):
            return True
        if isinstance(owner, cst.Name) and not _bound_in(script, owner, hook):
            return True
    return False


def _bound_in(script: Script, name: cst.Name, hook: Function) -> bool:
    values = [one for one in script.values(name) if one is not None]
    return any(hook in (value, *script.ancestors(value)) for value in values)


def _own_list(script: Script, call: cst.Call, function: cst.FunctionDef) -> bool:
    """Recognise `self.kept.append(...)`, if `forward` itself does not make the list anew."""
    if attribute(call.func) not in GROWS or not isinstance(call.func, cst.Attribute):
        return False
    name = own_attribute(call.func.value)
    around = script.around(function, cst.ClassDef)
    if not name or around is None:
        return False
    values = attributes(script, around).get(name, [])
    made_anew = any(script.function(value) is function for value in values)
    return bool(values) and all(isinstance(value, cst.List) for value in values) and not made_anew


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


def container_compile(script: Script) -> Iterator[Hit]:
    """Find DLC136."""
    for call in script.all(cst.Call):
        if attribute(call.func) != "compile" or not isinstance(call.func, cst.Attribute) or script.name(call.func):
            continue
        made = script.value(call.func.value)
        kind = script.name(made.func) if isinstance(made, cst.Call) else ""
        if kind.startswith("torch.nn.") and kind.count(".") == 2 and kind.rpartition(".")[2][:1].isupper():
            yield Hit(
                call,
                f"{script.code(call)} compiles nothing for a class of torch.nn itself ({kind[9:]}), "
                "and says nothing; use model = torch.compile(model), or a class of your own",
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


def changed_global(script: Script) -> Iterator[Hit]:
    """Find DLC138."""
    for function in compiled_code(script):
        for node, changed in _changes(script, function):
            if script.function(node) is function and not guarded(script, node, function.body):
                yield Hit(
                    node,
                    f"{script.code(node)} changes {changed.value} in each step, and the compiled code is only for "
                    "the one it saw; count and collect outside of the model",
                )


def _changes(script: Script, function: cst.FunctionDef) -> Iterator[tuple[cst.CSTNode, cst.Name]]:
    """Yield `calls += 1` of a global, `seen.append(x)` of a list that is made at the top of the script.

    A tensor in a global or in a dictionary is no reason to compile anew.
    """
    names = {item.name.value for one in script.inside(function.body, cst.Global) for item in one.names}
    for adds in script.inside(function.body, cst.AugAssign):
        target = adds.target
        if isinstance(target, cst.Name) and target.value in names and _at_the_top(script, target, _is_whole_number):
            yield adds, target
    for call in script.inside(function.body, cst.Call):
        grown = call.func.value if isinstance(call.func, cst.Attribute) and attribute(call.func) in GROWS else None
        if isinstance(grown, cst.Name) and _at_the_top(script, grown, lambda value: isinstance(value, cst.List)):
            yield call, grown


def _at_the_top(script: Script, name: cst.Name, is_right: Callable[[cst.CSTNode], bool]) -> bool:
    values = [one for one in script.values(name) if one is not None]
    return bool(values) and all(script.function(one) is None and is_right(one) for one in values)


def _is_whole_number(value: cst.CSTNode) -> bool:
    return type(literal(value)) is int


RULES = (
    Rule("DLC131", "the model counts in a Python number", counter_in_model),
    Rule("DLC132", "the model or its hook makes a list longer", growing_list),
    Rule("DLC133", "a second derivative through the model", double_backward),
    Rule("DLC135", "the compiled model is thrown away", unused_compile),
    Rule("DLC136", "compile() of a class of torch.nn itself", container_compile),
    Rule("DLC137", "the model draws random numbers from NumPy", numpy_random),
    Rule("DLC138", "the model counts or collects in a global", changed_global),
)
