"""DLC117: what a script keeps of each step, with the graph below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.findings import Hit
from dlc_lint.rules.rule import Rule
from dlc_lint.script.script import attribute, literal
from dlc_lint.script.training_steps import backward_calls, guarded, loss_of, losses_of, nearest_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dlc_lint.script.script import Loop, Script

    IsRight = Callable[[cst.CSTNode], bool]
    Change = cst.Call | cst.AugAssign | cst.Assign

FEWEST_STEPS = 10


def keeps_graph(script: Script) -> Iterator[Hit]:
    """Find DLC117."""
    for backward in backward_calls(script):
        loop, loss = nearest_loop(script, backward), loss_of(backward)
        if loop is None or loss is None or _few_turns(script, loop):
            continue
        for node, kept in _keeps(script, loop, loss.value):
            if not guarded(script, node, loop.body) and not _bound_between(script, loss, node, backward):
                again = any(script.argument(backward, word) is not None for word in ("retain_graph", "create_graph"))
                yield Hit(
                    node,
                    f"{script.code(node)} keeps the graph of each step, and memory grows with the steps; "
                    f"keep {loss.value}.detach()",
                    () if again else (script.replace(kept, f"{loss.value}.detach()"),),
                )


def _few_turns(script: Script, loop: Loop) -> bool:
    """Recognise `range(10)`: ten graphs are no leak."""
    call = loop.iter if isinstance(loop, cst.For) else None
    if not isinstance(call, cst.Call) or not script.is_one_of(call.func, {"range"}) or not call.args:
        return False
    number = literal(call.args[-1].value)
    return isinstance(number, int) and number <= FEWEST_STEPS


def _keeps(script: Script, loop: Loop, loss: str) -> Iterator[tuple[cst.CSTNode, cst.Name]]:
    """Recognise `losses.append(loss)`, `total += loss` and `total = total + loss` of what outlives a turn."""
    changes: list[Change] = [*script.inside(loop.body, cst.Call), *script.inside(loop.body, cst.AugAssign)]
    for node in (*changes, *script.inside(loop.body, cst.Assign)):
        into, value, is_right = _change(node)
        if not isinstance(value, cst.Name) or value.value != loss or nearest_loop(script, node) is not loop:
            continue
        if _outlives(script, into, loop, is_right, changed_by=node):
            yield node, value


def _change(node: Change) -> tuple[cst.CSTNode | None, cst.CSTNode | None, IsRight]:
    """Return what becomes longer or larger, by what, and what it must have been before."""
    if isinstance(node, cst.AugAssign):
        adds = isinstance(node.operator, cst.AddAssign)
        return node.target if adds else None, node.value, _is_number
    if isinstance(node, cst.Assign):
        return *_sum(node), _is_number
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "append" and len(node.args) == 1:
        return node.func.value, node.args[0].value, _is_list
    return None, None, _is_list


def _sum(node: cst.Assign) -> tuple[cst.CSTNode | None, cst.CSTNode | None]:
    """Return `total` and `loss` of `total = total + loss` and `total = loss + total`."""
    target, value = node.targets[0].target, node.value
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return None, None
    for one, other in ((value.left, value.right), (value.right, value.left)):
        if len(node.targets) == 1 and one.deep_equals(target):
            return target, other
    return None, None


def _outlives(script: Script, kept: cst.CSTNode | None, loop: Loop, is_right: IsRight, changed_by: Change) -> bool:
    """Return whether a name is bound to a list or number before the loop, not again in it, and not used up."""
    if not isinstance(kept, cst.Name) or kept.value in losses_of(script):
        return False
    own = changed_by.value if isinstance(changed_by, cst.Assign) else None
    values = [one for one in script.values(kept) if one is not None and one is not own]
    inside = any(loop.body in script.ancestors(value) for value in values)
    emptied = any(
        attribute(call.func) in ("clear", "pop") and isinstance(call.func, cst.Attribute)
        and isinstance(call.func.value, cst.Name) and call.func.value.value == kept.value
        for call in script.all(cst.Call)
    )  # fmt: skip
    return bool(values) and all(map(is_right, values)) and not inside and not emptied


def _is_list(value: cst.CSTNode) -> bool:
    return isinstance(value, cst.List) or (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "list"
    )


def _is_number(value: cst.CSTNode) -> bool:
    return type(literal(value)) in (int, float)


def _bound_between(script: Script, loss: cst.Name, node: cst.CSTNode, backward: cst.Call) -> bool:
    """Recognise `loss = loss.item()` between the two."""
    first, last = sorted((node, backward), key=lambda one: script.place(one)[:2])
    values = [one for one in script.values(loss) if one is not None]
    return any(script.before(first, one) and script.before(one, last) for one in values)


RULES = (Rule("DLC117", "the graph of each step is kept", keeps_graph, fixable=True),)
