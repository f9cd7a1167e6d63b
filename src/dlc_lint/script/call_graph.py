"""Which functions of a script are called, as far as its names tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from dlc_lint.script.script import remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Script

DEFINES = (cst.Import, cst.ImportFrom, cst.Assign, cst.AnnAssign, cst.Pass)


@remembered
def names_reached(script: Script, node: cst.CSTNode) -> set[str]:
    """Return all names in a piece of code, in the functions of the script that it names, and so on."""
    names: set[str] = set()
    todo, seen = [node], {id(node)}
    while todo:
        found = {name.value for name in script.inside(todo.pop(), cst.Name)}
        called = [
            one.body for one in script.all(cst.FunctionDef) if one.name.value in found and id(one.body) not in seen
        ]
        names |= found
        todo += called
        seen |= {id(body) for body in called}
    return names


def is_called(script: Script, node: cst.CSTNode) -> bool:
    """Return whether the code at a node can run: no function around it is one that the script never names.

    A file that only defines is a module: others call what it defines.
    """
    if _only_defines(script):
        return True
    reached = _reached(script)
    return all(id(one) in reached for one in script.ancestors(node) if isinstance(one, cst.FunctionDef))


@remembered
def _only_defines(script: Script) -> bool:
    return not any(_does_something(one) for one in script.module.body)


def _does_something(statement: cst.BaseStatement) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return not all(isinstance(one, DEFINES) or _is_text(one) for one in statement.body)
    return isinstance(statement, (cst.For, cst.While, cst.With)) or (
        isinstance(statement, cst.If) and isinstance(statement.test, cst.Comparison)
    )


def _is_text(statement: cst.BaseSmallStatement) -> bool:
    return isinstance(statement, cst.Expr) and isinstance(statement.value, (cst.SimpleString, cst.ConcatenatedString))


@remembered
def _reached(script: Script) -> set[int]:
    """Return the functions, by id, that code outside of functions names, and those that these name in turn."""
    functions = script.all(cst.FunctionDef)
    reached: set[int] = set()
    names = {name for part in script.module.body for name in _named(script, part)}
    while True:
        new = [one for one in functions if id(one) not in reached and _is_named(script, one, names)]
        if not new:
            return reached
        reached |= {id(one) for one in new}
        names |= {name for one in new for name in _named(script, one.body)}


def _named(script: Script, node: cst.CSTNode) -> Iterator[str]:
    """Yield the names in code that runs with `node`, without the bodies of functions below it."""
    if isinstance(node, cst.Name):
        yield node.value
    for child in script.children(node):
        if isinstance(node, cst.FunctionDef) and (child is node.name or child is node.body):
            continue
        if not (isinstance(node, cst.ClassDef) and child is node.name):
            yield from _named(script, child)


def _is_named(script: Script, function: cst.FunctionDef, names: set[str]) -> bool:
    """Return whether its own name is, or the class of a method that Python or the base class calls."""
    if function.name.value in names:
        return True
    block = script.parent(function)
    around = script.parent(block) if block is not None else None
    if not isinstance(around, cst.ClassDef) or around.name.value not in names:
        return False
    return bool(around.bases) or function.name.value.startswith("__")
