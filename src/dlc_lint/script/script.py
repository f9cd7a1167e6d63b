"""One script: its tree, its index of nodes, what its names stand for, and edits of its text."""

from __future__ import annotations

import dataclasses
import io
from collections import defaultdict
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypeVar, Union, cast

import libcst as cst
from libcst import metadata

from dlc_lint.findings import Edit, Place
from dlc_lint.script import parsing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Node = TypeVar("Node", bound=cst.CSTNode)
Function = Union[cst.FunctionDef, cst.Lambda]
Loop = Union[cst.For, cst.While]

# One name for what several packages call differently.
SYNONYMS = (
    ("pytorch_lightning.", "lightning."),
    ("lightning.pytorch.", "lightning."),
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.keras.", "keras."),
    ("tensorflow.python.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.nn.modules.", "torch.nn."),
    ("tqdm.auto.", "tqdm."),
    ("tqdm.notebook.", "tqdm."),
)
Asked = TypeVar("Asked", bound=Callable[..., Any])

LAYOUT = (
    cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Comment, cst.Newline, cst.Comma,
    cst.LeftParen, cst.RightParen, cst.AssignEqual, cst.Dot, cst.Colon, cst.Semicolon,
)  # fmt: skip
# Their fields are not in the order of the text.
OUT_OF_ORDER = (cst.FunctionDef, cst.ClassDef, cst.IfExp)
PROVIDERS = (metadata.PositionProvider, metadata.ScopeProvider)


class Options(NamedTuple):
    """What the caller knows of the job: `compiler` is inductor, xla or "" for what the script itself says."""

    compiler: str = ""


class Script:
    """Built once for each script; every rule asks it."""

    def __init__(self, text: str, path: str = "<script>", options: Options = Options()) -> None:  # noqa: B008 (frozen)
        self.path = path
        self.text = text[1:] if text.startswith("\ufeff") else text
        self.options = options
        wrapper = metadata.MetadataWrapper(parsing.parse(self.text, path), unsafe_skip_copy=True)
        self.module = wrapper.module
        try:
            found = wrapper.resolve_many(PROVIDERS)
        except (RecursionError, KeyError) as error:
            # Libcst turns a RecursionError into a KeyError.
            raise parsing.too_deep(path) from error
        self._positions = cast("Mapping[cst.CSTNode, metadata.CodeRange]", found[metadata.PositionProvider])
        self._scopes = cast("Mapping[cst.CSTNode, metadata.Scope | None]", found[metadata.ScopeProvider])
        self._parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._children: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        self._nodes: dict[type, list[cst.CSTNode]] = defaultdict(list)
        self._collect()
        # As the parser counts them.
        self.lines = list(io.StringIO(self.text, newline=""))
        # Results of `is_tensor`, by id of the node.
        self.tensors: dict[int, bool] = {}
        # Results of functions that are `remembered`.
        self.answers: dict[tuple[object, ...], Any] = {}
        self.names = cache(self._names)

    def _collect(self) -> None:
        """Find parents, children and the index in one walk: libcst's own ways take ten times as long."""
        stack: list[cst.CSTNode] = [self.module]
        while stack:
            one = stack.pop()
            self._nodes[type(one)].append(one)
            children = list(_parts(one))
            if isinstance(one, OUT_OF_ORDER):
                children.sort(key=lambda part: self.place(part)[:2])
            self._children[one] = children
            for child in children:
                self._parents[child] = one
            stack.extend(reversed(children))

    # The tree

    def all(self, kind: type[Node]) -> list[Node]:
        """Return every node of a type, in the order of the text."""
        return self._nodes[kind]  # type: ignore[return-value]

    def inside(self, node: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
        """Yield the nodes of a type below `node`, in the order of the text."""
        stack = [node]
        while stack:
            one = stack.pop()
            if isinstance(one, kind):
                yield one
            stack.extend(reversed(self._children[one]))

    def children(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the nodes right below it, in the order of the text."""
        return self._children[node]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node around it; None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes from the parent outwards, to the module."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def around(self, node: cst.CSTNode, *kinds: type[Node]) -> Node | None:
        """Return the nearest ancestor of one of these types."""
        return next((one for one in self.ancestors(node) if isinstance(one, kinds)), None)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the function around it; a lambda is no boundary."""
        return self.around(node, cst.FunctionDef)

    def place(self, node: cst.CSTNode) -> Place:
        """Return where it stands."""
        where = self._positions[node]
        return Place(where.start.line, where.start.column, where.end.line, where.end.column)

    def line(self, node: cst.CSTNode) -> int:
        """Return its first line."""
        return self.place(node).line

    def before(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Return whether one starts before the other."""
        return self.place(one)[:2] < self.place(other)[:2]

    def code(self, node: cst.CSTNode) -> str:
        """Return its text on one line, for messages."""
        text = " ".join(self.module.code_for_node(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."

    # Names

    def name(self, node: cst.CSTNode | None) -> str:
        """Return the full name of an imported or built-in thing, such as torch.optim.AdamW; "" for all others."""
        found = self.names(node) if node is not None else frozenset()
        return next(iter(found)) if len(found) == 1 else ""

    def is_one_of(self, node: cst.CSTNode | None, names: Collection[str]) -> bool:
        """Return whether it can only be one of these, by full name; a name that was bound again cannot."""
        found = self.names(node) if node is not None else frozenset()
        return bool(found) and found <= frozenset(names)

    def _names(self, node: cst.CSTNode) -> frozenset[str]:
        # `a().b` has no full name.
        scope = self.scope(node) if isinstance(owner(node), cst.Name) else None
        if scope is None:
            return frozenset()
        found = scope.get_qualified_names_for(node)
        if not found or any(one.source is metadata.QualifiedNameSource.LOCAL for one in found):
            return self._alias(node)
        return frozenset(_canonical(one.name) for one in found)

    def _alias(self, node: cst.CSTNode) -> frozenset[str]:
        """Return the names of an alias: `sync = xm.mark_step` names it again if `sync` is bound once."""
        first = owner(node)
        value = self.value(first) if isinstance(first, cst.Name) else None
        origin = owner(value)
        if not isinstance(value, (cst.Name, cst.Attribute)) or not isinstance(origin, cst.Name):
            return frozenset()
        if not isinstance(first, cst.Name) or origin.value == first.value:
            return frozenset()
        rest = self.module.code_for_node(node)[len(first.value) :]
        return frozenset(_canonical(f"{name}{rest}") for name in self.names(value))

    def scope(self, node: cst.CSTNode) -> metadata.Scope | None:
        """Return the scope that a node is in."""
        found = (self._scopes.get(one) for one in (node, *self.ancestors(node)))
        return next((one for one in found if one is not None), None)

    def values(self, node: cst.CSTNode) -> list[cst.CSTNode | None]:
        """Return a name's values in the order of the text: expressions, functions, classes, parameters, imports.

        None stands for what cannot be said, such as the variable of a loop.
        """
        if not isinstance(node, cst.Name):
            return []
        scope = self.scope(node)
        bound = [one for one in (scope[node.value] if scope else ()) if isinstance(one, metadata.Assignment)]
        found = [self._value(one.node) for one in sorted(bound, key=lambda one: self.place(one.node))]
        return [one for one in found if one is not None] + [None] * (None in found)

    def value(self, node: cst.CSTNode | None) -> cst.CSTNode | None:
        """Return the expression itself; for a name that is bound once, its value."""
        for _ in range(5):
            if not isinstance(node, cst.Name):
                break
            values = self.values(node)
            if len(values) != 1:
                break
            node = values[0]
        return node

    def _value(self, node: cst.CSTNode) -> cst.CSTNode | None:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Param, cst.Import, cst.ImportFrom)):
            return node
        above = self.parent(node)
        if isinstance(above, cst.AssignTarget):
            assign = self.parent(above)
            return assign.value if isinstance(assign, cst.Assign) else None
        if isinstance(above, (cst.AnnAssign, cst.NamedExpr)) and above.target is node:
            return above.value
        if isinstance(above, cst.Param):
            return above
        return self._of_tuple(node, above)

    def _of_tuple(self, node: cst.CSTNode, above: cst.CSTNode | None) -> cst.CSTNode | None:
        """Return the value at the same position of `a, b = x, y`."""
        target = self.parent(above) if isinstance(above, cst.Element) else None
        outer = self.parent(target) if isinstance(target, cst.Tuple) else None
        assign = self.parent(outer) if isinstance(outer, cst.AssignTarget) else None
        if not isinstance(target, cst.Tuple) or not isinstance(assign, cst.Assign):
            return None
        value = assign.value
        if not isinstance(value, cst.Tuple) or len(value.elements) != len(target.elements):
            return None
        return value.elements[[one.value for one in target.elements].index(node)].value  # type: ignore[arg-type]

    # Calls

    def calls(self, *names: str) -> Iterator[cst.Call]:
        """Yield calls of these, by full name; a name that ends with a dot means all below it."""
        exact = {name for name in names if not name.endswith(".")}
        below = tuple(name for name in names if name.endswith("."))
        for call in self.all(cst.Call):
            found = self.names(call.func)
            if found and all(name in exact or (below and name.startswith(below)) for name in found):
                yield call

    def argument(self, call: cst.Call, keyword: str, position: int | None = None) -> cst.BaseExpression | None:
        """Return the value of an argument by keyword, or by position."""
        for index, arg in enumerate(call.args):
            if arg.keyword is not None and arg.keyword.value == keyword:
                return arg.value
            if position is not None and arg.keyword is None and index == position and not arg.star:
                return arg.value
        return None

    def arg(self, call: cst.Call, keyword: str) -> cst.Arg:
        """Return the argument itself, for its place; it must be there."""
        return next(arg for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword)

    def has_stars(self, call: cst.Call) -> bool:
        """Return whether arguments come from a list or a dictionary, so that not all of them can be read."""
        return any(arg.star for arg in call.args)

    # Edits

    def replace(self, node: cst.CSTNode, text: str) -> Edit:
        """Put another text in its place."""
        return Edit(self.place(node), text)

    def drop_argument(self, call: cst.Call, arg: cst.Arg) -> tuple[Edit, ...]:
        """Remove an argument with its comma; nothing if that would take a comment along."""
        index = list(call.args).index(arg)
        here = self.place(arg)
        if index + 1 < len(call.args):
            after = self.place(call.args[index + 1])
            place = Place(here.line, here.column, after.line, after.column)
        elif index:
            before = self.place(call.args[index - 1])
            place = Place(before.end_line, before.end_column, here.end_line, here.end_column)
        else:
            place = here
        return () if "#" in self._between(place) else (Edit(place, ""),)

    def drop_line(self, statement: cst.BaseStatement | cst.BaseSmallStatement) -> tuple[Edit, ...]:
        """Remove a statement that has its line to itself; nothing if it is alone or has a comment."""
        block = self.parent(statement)
        place = self.place(statement)
        rest = self.lines[place.end_line - 1][place.end_column :].strip()
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return ()
        if len(getattr(block, "body", ())) < 2 or rest:
            return ()
        end = (place.end_line + 1, 0)
        return (Edit(Place(place.line, 0, *end), ""),)

    def _between(self, place: Place) -> str:
        if place.line == place.end_line:
            return self.lines[place.line - 1][place.column : place.end_column]
        first, *middle, last = self.lines[place.line - 1 : place.end_line]
        return "".join([first[place.column :], *middle, last[: place.end_column]])


def remembered(function: Asked) -> Asked:
    """Keep the result of `function(script, *nodes)`: several rules ask the same."""

    @wraps(function)
    def ask(script: Script, *nodes: cst.CSTNode) -> object:
        key = (function, *map(id, nodes))
        if key not in script.answers:
            script.answers[key] = function(script, *nodes)
        return script.answers[key]

    return cast("Asked", ask)


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if "whitespace" not in field.name)


def _parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes right below, without what is only layout."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, cst.CSTNode) and not isinstance(one, LAYOUT):
                yield one


def _canonical(name: str) -> str:
    name = name[len("builtins.") :] if name.startswith("builtins.") else name
    for _ in range(2):
        for prefix, other in SYNONYMS:
            if name.startswith(prefix):
                name = other + name[len(prefix) :]
    return name


def attribute(node: cst.CSTNode | None) -> str:
    """Return the last name of `a.b.c`; "" for what is no attribute."""
    return node.attr.value if isinstance(node, cst.Attribute) else ""


def owner(node: cst.CSTNode | None) -> cst.CSTNode | None:
    """Return `a` of `a.b.c`."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node


def root(node: cst.CSTNode) -> cst.CSTNode:
    """Return the first part of `a.b().c[0]`."""
    while True:
        if isinstance(node, cst.Attribute):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, cst.Subscript):
            node = node.value
        else:
            return node


def literal(node: cst.CSTNode | None) -> object:
    """Return a number, string, True, False or None that stands there; `...` for everything else."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = literal(node.expression)
        return -value if isinstance(value, (int, float)) else ...
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    if isinstance(node, cst.Name):
        return {"True": True, "False": False, "None": None}.get(node.value, ...)
    return ...
