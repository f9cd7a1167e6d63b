"""The functions of a TensorFlow script that run as graphs, and which of them XLA compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from dlc_lint.script.script import attribute, literal, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlc_lint.script.script import Function, Script

TF_FUNCTION = "tensorflow.function"


class GraphFunction(NamedTuple):
    """`made_by` is the call with its options; None for a bare `@tf.function`, and for what a graph function calls."""

    node: Function
    jit: bool
    made_by: cst.Call | None
    is_root: bool


@remembered
def graph_functions(script: Script) -> list[GraphFunction]:
    """Return the functions with tf.function around them, and those that they call."""
    found: dict[int, GraphFunction] = {}
    for one in _roots(script):
        earlier = found.get(id(one.node))
        if earlier is None or (one.jit and not earlier.jit):
            found[id(one.node)] = one
    todo = list(found.values())
    while todo:
        one = todo.pop()
        for function in _used_in(script, one.node):
            earlier = found.get(id(function))
            if earlier is None or (one.jit and not earlier.jit and not earlier.is_root):
                found[id(function)] = GraphFunction(function, one.jit, None, False)
                todo.append(found[id(function)])
    return list(found.values())


def _roots(script: Script) -> Iterator[GraphFunction]:
    for defined in script.all(cst.FunctionDef):
        for decorator in defined.decorators:
            call = decorator.decorator if isinstance(decorator.decorator, cst.Call) else None
            if script.is_one_of(call.func if call is not None else decorator.decorator, {TF_FUNCTION}):
                yield GraphFunction(defined, is_jit(script, call), call, True)
    for call in script.calls(TF_FUNCTION):
        given = script.argument(call, "func", 0)
        for function in functions_named(script, given):
            yield GraphFunction(function, is_jit(script, call), call, True)


def is_jit(script: Script, call: cst.Call | None) -> bool:
    """Recognise `jit_compile=True`, or what is decided when it runs."""
    if call is None:
        return False
    given = script.argument(call, "jit_compile") or script.argument(call, "experimental_compile")
    return given is not None and literal(given) not in (False, None, "auto")


def functions_named(script: Script, given: cst.CSTNode | None) -> list[Function]:
    """Return a function by its name, a method by `self.name`, or a lambda."""
    value = script.value(given)
    if isinstance(value, (cst.FunctionDef, cst.Lambda)):
        return [value]
    name = attribute(given)
    return [one for one in script.all(cst.FunctionDef) if name and one.name.value == name]


def _used_in(script: Script, function: Function) -> Iterator[cst.FunctionDef]:
    """Yield every function of the script that is named in its body: called, or given to strategy.run."""
    names = {one.value for one in script.inside(function.body, cst.Name)}
    for other in script.all(cst.FunctionDef):
        if other is not function and other.name.value in names:
            yield other


def enclosing(script: Script, node: cst.CSTNode, functions: list[GraphFunction]) -> GraphFunction | None:
    """Return the innermost of these functions around a node; nested functions belong to their graph."""
    by_id = {id(one.node): one for one in functions}
    return next((by_id[id(one)] for one in script.ancestors(node) if id(one) in by_id), None)


@remembered
def keras_compiles(script: Script) -> list[cst.Call]:
    """Return the calls `model.compile(optimizer=..., loss=...)` of Keras."""
    known = ("optimizer", "loss", "metrics", "jit_compile", "run_eagerly")
    calls = [one for one in script.all(cst.Call) if attribute(one.func) == "compile" and not script.name(one.func)]
    return [one for one in calls if any(script.argument(one, word) is not None for word in known)]


@remembered
def uses_jit(script: Script) -> bool:
    """Return whether XLA compiles a step of the script: it says so, or the caller does."""
    if script.options.compiler == "xla":
        return True
    if any(is_jit(script, one) for one in keras_compiles(script)):
        return True
    return any(one.jit for one in graph_functions(script))
