"""A batch as a tree: what describes it in JSON, and the memory of its arrays. Knows arrays only by `leaves`.

Tuples, named tuples, lists and mappings may be nested; leaves are tensors, numpy arrays, bytes, and what JSON has.
A description (schema) is the same for batches of the same shapes, so it crosses a connection once.
"""

from __future__ import annotations

import collections
import json
import keyword
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.errors import ProtocolError, UnsupportedBatchError
from dlc_runtime.dataservice.wire import leaves
from dlc_runtime.dataservice.wire.frames import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

DEEPEST = 32
_PLAIN = (str, int, float, bool, type(None))


class Packed(NamedTuple):
    """A batch ready to be sent: `schema` and `extras` are JSON, `parts` the arrays' memory in order."""

    schema: bytes
    extras: bytes
    parts: list[memoryview]
    kept: list[Any]  # what owns the memory of `parts`

    @property
    def size(self) -> int:
        return len(self.extras) + sum(part.nbytes for part in self.parts)


class Leaf(NamedTuple):
    """An array of a schema: how many bytes it takes."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    size: int


class Schema(NamedTuple):
    """A read description."""

    tree: Any
    arrays: tuple[Leaf, ...]

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in self.arrays)


def pack(batch: Any) -> Packed:
    """Raises UnsupportedBatchError, which names the place, for what does not travel."""
    values: list[Any] = []
    parts: list[memoryview] = []
    kept: list[Any] = []
    tree = _walk(batch, "batch", 0, values, parts, kept)
    schema = json.dumps(tree, separators=(",", ":")).encode()
    extras = json.dumps(values, separators=(",", ":")).encode() if values else b""
    for text, what in ((schema, "description"), (extras, "text and numbers")):
        if len(text) > MOST_TEXT:
            raise UnsupportedBatchError(
                f"the batch's {what} takes {len(text)} bytes, more than {MOST_TEXT}: use tensors"
            )
    return Packed(schema, extras, parts, kept)


def _walk(node: Any, place: str, depth: int, values: list[Any], parts: list[memoryview], kept: list[Any]) -> list[Any]:
    """No closure that calls itself: such a cycle would keep batches until the garbage collector comes."""
    if depth > DEEPEST:
        raise UnsupportedBatchError(f"{place}: nested more than {DEEPEST} deep")
    found = leaves.memory_of(node, place)
    if found is not None:
        kind, dtype, shape, memory, owner = found
        if memory is not None:
            parts.append(memory)
            kept.append(owner)
        return [kind, dtype, list(shape)]
    if _is_plain(node):
        values.append(node)
        return ["v"]
    return _walk_inner(node, place, lambda child, at: _walk(child, at, depth + 1, values, parts, kept))


def _is_plain(node: Any) -> bool:
    """What JSON gives back as it was: a scalar, or a list of scalars, which crosses as one value."""
    if type(node) is list:
        return all(type(item) in _PLAIN for item in node)
    return type(node) in _PLAIN


def _walk_inner(node: Any, place: str, walk: Callable[[Any, str], Any]) -> list[Any]:
    if isinstance(node, tuple):
        children = [walk(child, f"{place}[{at}]") for at, child in enumerate(node)]
        fields = getattr(node, "_fields", None)
        return ["t", children] if fields is None else ["n", type(node).__name__, list(fields), children]
    if isinstance(node, list):
        return ["l", [walk(child, f"{place}[{at}]") for at, child in enumerate(node)]]
    if isinstance(node, collections.abc.Mapping):
        if not all(type(key) in (str, int, bool) for key in node):
            raise UnsupportedBatchError(f"{place}: keys of a mapping have to be str or int, found {list(node)[:5]!r}")
        return ["d", [[key, walk(child, f"{place}[{key!r}]")] for key, child in node.items()]]
    raise UnsupportedBatchError(
        f"{place}: a {type(node).__module__}.{type(node).__qualname__} does not travel; expected tensors, numpy arrays,"
        " numbers, str, bytes, None, and tuples, lists or dicts of them; return these from the dataset or collate"
    )


def read_schema(text: bytes | memoryview, most: int) -> Schema:
    """Raises ProtocolError for anything that `pack` does not write."""
    arrays: list[Leaf] = []

    def walk(node: Any, depth: int) -> None:
        if depth > DEEPEST or not isinstance(node, list) or not node:
            raise ValueError("not a node")
        kind, *rest = node
        if kind == "v" and not rest:
            return
        if kind in leaves.KINDS:
            dtype, shape = rest
            if not all(type(size) is int and 0 <= size <= most for size in shape) or len(shape) > 64:
                raise ValueError("not a shape")
            arrays.append(Leaf(kind, dtype, tuple(shape), leaves.size_of(kind, dtype, shape)))
            return
        for child in _children(kind, rest):
            walk(child, depth + 1)

    try:
        tree = json.loads(bytes(text))
        walk(tree, 0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"expected the description of a batch, found {bytes(text)[:100]!r} ({error})") from error
    schema = Schema(tree, tuple(arrays))
    if schema.size > most:
        raise ProtocolError(f"a batch of {schema.size} bytes; the bound is {most}")
    return schema


def _children(kind: Any, rest: list[Any]) -> Sequence[Any]:
    if kind in ("t", "l"):
        (children,) = rest
    elif kind == "n":
        name, fields, children = rest
        if not all(map(_is_name, [name, *fields])) or len(set(fields)) != len(fields) or len(fields) != len(children):
            raise ValueError("not a named tuple")
    elif kind == "d":
        (items,) = rest
        if not all(len(item) == 2 and type(item[0]) in (str, int, bool) for item in items):
            raise ValueError("not a mapping")
        children = [child for _, child in items]
    else:
        raise ValueError(f"unknown kind {kind!r}")
    if not isinstance(children, list):
        raise ValueError("no children")
    return children


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("__")


def build(schema: Schema, arrays: Sequence[Any], extras: bytes | memoryview) -> Any:
    """The batch again. Raises ProtocolError where the values do not fit the description."""
    try:
        values = json.loads(bytes(extras)) if len(extras) else []
        value, array = iter(values), iter(arrays)
        batch = _built(schema.tree, value, array)
    except (ValueError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ProtocolError(f"the text of a batch does not fit its description ({error})") from error
    return batch


def _built(node: Any, values: Any, arrays: Any) -> Any:
    kind = node[0]
    if kind == "v":
        return next(values)
    if kind == "t":
        return tuple([_built(child, values, arrays) for child in node[1]])
    if kind == "l":
        return [_built(child, values, arrays) for child in node[1]]
    if kind == "d":
        return {key: _built(child, values, arrays) for key, child in node[1]}
    if kind == "n":
        return _named_tuple(node[1], tuple(node[2]))(*[_built(child, values, arrays) for child in node[3]])
    return next(arrays)


_NAMED: dict[tuple[str, tuple[str, ...]], Any] = {}


def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """A class with the remote one's name and fields: the remote one itself may not exist here, unless it is torch's."""
    if (name, fields) not in _NAMED:
        if len(_NAMED) >= MOST_NAMED:
            _NAMED.clear()
        _NAMED[name, fields] = leaves.class_of(name, fields) or collections.namedtuple(name, fields)
    return _NAMED[name, fields]


MOST_NAMED = 64
