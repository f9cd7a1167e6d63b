"""DLC137, DLC138: a model that draws from another generator, or leaves traces outside of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.base.finding import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.guards import guarded
from dlc_lint.script.modules import compiled_code, has_layers
from dlc_lint.script.script import attribute, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dlc_lint.script.script import Script

GROWS = {"append", "extend", "insert"}


def numpy_random(script: Script) -> Iterator[Hit]:
    """DLC137."""
    for function in compiled_code(script):
        around = script.around(function, cst.ClassDef)
        if around is not None and not has_layers(script, around):
            continue  # perhaps it only makes signals
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
    """DLC138."""
    for function in compiled_code(script):
        for node, changed in _changes(script, function):
            if script.function(node) is function and not guarded(script, node, function.body):
                yield Hit(
                    node,
                    f"{script.code(node)} changes {changed.value} in each step, and the compiled code is only for "
                    "the one it saw; count and collect outside of the model",
                )


def _changes(script: Script, function: cst.FunctionDef) -> Iterator[tuple[cst.CSTNode, cst.Name]]:
    """`calls += 1` of a global, `seen.append(x)` of a list that is made at the top of the script.

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
    Rule("DLC137", "the model draws random numbers from NumPy", numpy_random),
    Rule("DLC138", "the model counts or collects in a global", changed_global),
)
