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
    """Recognise `losses.append(loss)` and `total += loss` of what outlives a turn of the loop."""
    changes: list[cst.Call | cst.AugAssign] = [*script.inside(loop.body, cst.Call)]
    for node in (*changes, *script.inside(loop.body, cst.AugAssign)):
        into, value, is_right = _change(node)
        if not isinstance(value, cst.Name) or value.value != loss or nearest_loop(script, node) is not loop:
            continue
        if _outlives(script, into, loop, is_right):
            yield node, value


def _change(node: cst.Call | cst.AugAssign) -> tuple[cst.CSTNode | None, cst.CSTNode | None, IsRight]:
    """Return what becomes longer or larger, by what, and what it must have been before."""
    if isinstance(node, cst.AugAssign):
        adds = isinstance(node.operator, cst.AddAssign)
        return node.target if adds else None, node.value, _is_number
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "append" and len(node.args) == 1:
        return node.func.value, node.args[0].value, _is_list
    return None, None, _is_list


def _outlives(script: Script, kept: cst.CSTNode | None, loop: Loop, is_right: IsRight) -> bool:
    """Return whether a name is bound to a list or number before the loop, not again in it, and not used up."""
    if not isinstance(kept, cst.Name) or kept.value in losses_of(script):
        return False
    values = [one for one in script.values(kept) if one is not None]
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
