"""A batch as a tree: a description in JSON, and the memory of its leaves, arrays and tensors.

Tuples, named tuples, lists and mappings may be nested; leaves are tensors, numpy arrays, bytes, and what JSON has.
A description (schema) is the same for batches of the same shapes, so it crosses a connection once.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import json
import keyword
import marshal
import math
import sys
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.errors import ProtocolError, UnsupportedBatchError
from dlc_runtime.dataservice.wire.frames import MOST_SCHEMAS, MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Optional, Protocol

    class Buffer(Protocol):
        """Memory that a batch was received into."""

        memory: memoryview
        owner: Any
        is_pinned: bool

        @property
        def flat(self) -> Any:
            """Return all of it as a tensor of uint8."""

    Memory = tuple[str, str, Sequence[int], Optional[memoryview], Any]
    # The keys that lead to a node.
    Place = tuple[Any, ...]

DEEPEST = 32
_PLAIN = (str, int, float, bool, type(None))
# Marshal's version in which equal trees have equal bytes.
_NO_REFERENCES = 2
_DESCRIBED: dict[bytes, bytes] = {}
# Of batches that are tensors and nothing else, by their types and shapes.
_FLAT: dict[Any, bytes] = {}
_NAMED_TUPLES: dict[tuple[str, tuple[str, ...]], Any] = {}
MOST_NAMED_TUPLES = 64
KINDS = ("T", "A", "S", "B")
# In the place of a dtype: a bytearray.
MUTABLE = "bytearray"
# Name in torch -> bytes of an element; a torch that lacks one cannot send or receive it.
TORCH_DTYPES = {
    **dict.fromkeys(("uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float8_e8m0fnu",), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "complex32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
}
# PyBUF_READ.
_READ = 0x100


class Packed(NamedTuple):
    """A batch ready to be sent: `schema` and `extras` are JSON, `parts` the arrays' memory, which `kept` owns."""

    schema: bytes
    extras: bytes
    parts: list[memoryview]
    kept: list[Any]
    size: int


class Leaf(NamedTuple):
    """An array of a schema, with its bytes."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    size: int


class Schema(NamedTuple):
    """A read description. `flat` makes a batch that is a tuple or list of arrays and nothing else."""

    tree: Any
    arrays: tuple[Leaf, ...]
    flat: Callable[[Any], Any] | None = None

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in self.arrays)


def pack(batch: Any) -> Packed:
    """Make a batch ready. Raises UnsupportedBatchError, which names the place, for what does not travel."""
    torch = sys.modules.get("torch")
    if torch is not None and type(batch) in (tuple, list):
        found = _pack_tensors(torch, batch)
        if found is not None:
            return found
    values: list[Any] = []
    parts: list[memoryview] = []
    kept: list[Any] = []
    tree = _walk(batch, (), values, parts, kept)
    schema = _describe(tree)
    extras = json.dumps(values, separators=(",", ":")).encode() if values else b""
    for text, what in ((schema, "description"), (extras, "text and numbers")):
        if len(text) > MOST_TEXT:
            raise UnsupportedBatchError(
                f"the batch's {what} takes {len(text)} bytes, more than {MOST_TEXT}: use tensors"
            )
    return Packed(schema, extras, parts, kept, len(extras) + sum([part.nbytes for part in parts]))


def _pack_tensors(torch: Any, batch: Any) -> Packed | None:
    """Make plain tensors in a tuple or list ready; None for another batch. `pack` takes twice as long for them."""
    strided = torch.strided
    key: list[Any] = [type(batch)]
    parts, size = [], 0
    for node in batch:
        if type(node) is not torch.Tensor or node.layout is not strided or not getattr(node, "is_cpu", False):
            return None
        if getattr(node, "is_nested", False) or node.is_conj() or node.is_neg() or not node.is_contiguous():
            return None
        dtype, shape = node.dtype, node.shape
        key += dtype, shape
        many = node.numel() * TORCH_DTYPES.get(_dtype_name(dtype), 0)
        if not many:
            return None
        size += many
        parts.append(_from_memory(node.data_ptr(), many, _READ))
    if not parts:
        return None
    known = tuple(key)
    schema = _FLAT.get(known)
    if schema is None:
        if len(_FLAT) >= MOST_SCHEMAS:
            _FLAT.clear()
        children = [["T", _dtype_name(dtype), list(shape)] for dtype, shape in zip(key[1::2], key[2::2])]
        schema = _FLAT[known] = _describe(["t" if known[0] is tuple else "l", children])
    return Packed(schema, b"", parts, [*batch], size) if len(schema) <= MOST_TEXT else None


def _describe(tree: Any) -> bytes:
    """Return the tree as JSON. A job's batches have few different trees: to compare is faster than to write."""
    key = marshal.dumps(tree, _NO_REFERENCES)
    found = _DESCRIBED.get(key)
    if found is None:
        if len(_DESCRIBED) >= MOST_SCHEMAS:
            _DESCRIBED.clear()
        found = _DESCRIBED[key] = json.dumps(tree, separators=(",", ":")).encode()
    return found


def _walk(node: Any, place: Place, values: list[Any], parts: list[memoryview], kept: list[Any]) -> list[Any]:
    """Describe a node and collect its parts.

    A closure that calls itself would be a cycle, which keeps batches until the garbage collector comes.
    """
    if len(place) > DEEPEST:
        raise UnsupportedBatchError(f"{_name_of(place)}: nested more than {DEEPEST} deep")
    found = find_memory(node, place)
    if found is not None:
        kind, dtype, shape, memory, owner = found
        if memory is not None:
            parts.append(memory)
            kept.append(owner)
        return [kind, dtype, list(shape)]
    if _is_plain(node):
        values.append(node)
        return ["v"]
    if type(node) is complex:
        values.append([node.real, node.imag])
        return ["c"]
    if isinstance(node, (tuple, list)):
        children = [_walk(child, (*place, at), values, parts, kept) for at, child in enumerate(node)]
        fields = getattr(node, "_fields", None)
        if isinstance(node, list) or fields is None:
            return ["l" if isinstance(node, list) else "t", children]
        return ["n", type(node).__name__, list(fields), children]
    if not isinstance(node, collections.abc.Mapping):
        raise UnsupportedBatchError(
            f"{_name_of(place)}: a {type(node).__module__}.{type(node).__qualname__} does not travel; expected tensors,"
            " numpy arrays, numbers, str, bytes, None, and tuples, lists or dicts of them; return these from the"
            " dataset or collate"
        )
    if not all(type(key) in (str, int, bool) for key in node):
        raise UnsupportedBatchError(
            f"{_name_of(place)}: keys of a mapping have to be str or int, found {list(node)[:5]!r}"
        )
    return ["d", [[key, _walk(child, (*place, key), values, parts, kept)] for key, child in node.items()]]


def _name_of(place: Place) -> str:
    return "batch" + "".join(f"[{at!r}]" for at in place)


def _is_plain(node: Any) -> bool:
    """Return whether JSON gives it back as it was: a scalar, or a list of scalars, which crosses as one value."""
    if type(node) is list:
        return all(type(item) in _PLAIN for item in node)
    return type(node) in _PLAIN


def read_schema(text: bytes | memoryview, most: int) -> Schema:
    """Read a description. Raises ProtocolError for anything that `pack` does not write."""
    arrays: list[Leaf] = []

    def walk(node: Any, depth: int) -> None:
        if depth > DEEPEST or not isinstance(node, list) or not node:
            raise ValueError("not a node")
        kind, *rest = node
        if kind in ("v", "c") and not rest:
            return
        if kind in KINDS:
            dtype, shape = rest
            if not all(type(size) is int and 0 <= size <= most for size in shape) or len(shape) > 64:
                raise ValueError("not a shape")
            arrays.append(Leaf(kind, dtype, tuple(shape), count_bytes(kind, dtype, shape)))
            return
        for child in _children(kind, rest):
            walk(child, depth + 1)

    try:
        tree = json.loads(bytes(text))
        walk(tree, 0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"expected the description of a batch, found {bytes(text)[:100]!r} ({error})") from error
    is_flat = tree[0] in ("t", "l") and all(child[0] in KINDS for child in tree[1])
    schema = Schema(tree, tuple(arrays), (tuple if tree[0] == "t" else list) if is_flat else None)
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


def unpack(schema: Schema, arrays: Sequence[Any], extras: bytes | bytearray) -> Any:
    """Make the batch again. Raises ProtocolError if the values do not fit the description."""
    if schema.flat is not None and not extras:
        return schema.flat(arrays)
    try:
        values = json.loads(extras) if extras else []
        value, array = iter(values), iter(arrays)
        batch = _unpack_node(schema.tree, value, array)
    except (ValueError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ProtocolError(f"the text of a batch does not fit its description ({error})") from error
    return batch


def _unpack_node(node: Any, values: Any, arrays: Any) -> Any:
    kind = node[0]
    if kind == "v":
        return next(values)
    if kind == "c":
        return complex(*next(values))
    if kind == "t":
        return tuple([_unpack_node(child, values, arrays) for child in node[1]])
    if kind == "l":
        return [_unpack_node(child, values, arrays) for child in node[1]]
    if kind == "d":
        return {key: _unpack_node(child, values, arrays) for key, child in node[1]}
    if kind == "n":
        return _named_tuple_class(node[1], tuple(node[2]))(*[_unpack_node(child, values, arrays) for child in node[3]])
    return next(arrays)


def _named_tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    """Return a class with the remote one's name and fields, which may not exist here; torch's own if it is that."""
    if (name, fields) not in _NAMED_TUPLES:
        if len(_NAMED_TUPLES) >= MOST_NAMED_TUPLES:
            _NAMED_TUPLES.clear()
        _NAMED_TUPLES[name, fields] = find_torch_class(name, fields) or collections.namedtuple(name, fields)
    return _NAMED_TUPLES[name, fields]


_from_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_from_memory.restype = ctypes.py_object
_from_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def find_memory(node: Any, place: Place) -> Memory | None:
    """Return an array's memory, None for anything else. Raises UnsupportedBatchError if it does not travel."""
    if isinstance(node, (bytes, bytearray)):
        memory = memoryview(bytes(node)) if node else None
        return "B", MUTABLE if isinstance(node, bytearray) else "", (len(node),), memory, node
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(node, torch.Tensor):
        return _tensor_memory(torch, node, place)
    if numpy is not None and isinstance(node, (numpy.ndarray, numpy.generic)):
        return _array_memory(numpy, node, place)
    return None


def _tensor_memory(torch: Any, node: Any, place: Place) -> Memory:
    dtype = _dtype_name(node.dtype)
    is_dense = node.layout is torch.strided and not getattr(node, "is_nested", False)
    # The first is faster; old versions lack it.
    is_here = getattr(node, "is_cpu", False) or node.device.type == "cpu"
    if dtype not in TORCH_DTYPES or not is_dense or not is_here:
        raise UnsupportedBatchError(
            f"{_name_of(place)}: a tensor of {node.dtype}, {node.layout} on {node.device} does not travel; expected a"
            " dense tensor on the CPU; convert it in collate"
        )
    tensor = node.detach().contiguous()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    size = tensor.numel() * TORCH_DTYPES[dtype]
    memory = _from_memory(tensor.data_ptr(), size, _READ) if size else None
    return "T", dtype, tensor.shape, memory, tensor


@functools.lru_cache(maxsize=64)
def _dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _array_memory(numpy: Any, node: Any, place: Place) -> Memory:
    if isinstance(node, numpy.ma.MaskedArray):
        raise UnsupportedBatchError(
            f"{_name_of(place)}: a masked array would arrive without its mask; send mask and data as two"
        )
    array = numpy.ascontiguousarray(node).reshape(node.shape)
    if array.dtype.hasobject or array.dtype.names or array.dtype.kind not in "biufcSUmM":
        raise UnsupportedBatchError(
            f"{_name_of(place)}: a numpy array of {array.dtype} does not travel; expected numbers or text"
        )
    kind = "A" if isinstance(node, numpy.ndarray) else "S"
    memory = memoryview(array.reshape(-1).view(numpy.uint8)) if array.nbytes else None
    return kind, array.dtype.str, array.shape, memory, array


def count_bytes(kind: str, dtype: str, shape: Sequence[int]) -> int:
    """Return an array's bytes. Raises ValueError for a dtype that nobody sends, or numpy's without numpy."""
    if kind == "B":
        (size,) = shape
        if dtype not in ("", MUTABLE):
            raise ValueError(f"unknown kind of bytes {dtype!r}")
        return size
    if kind == "T":
        if dtype not in TORCH_DTYPES:
            raise ValueError(f"unknown dtype {dtype!r}")
        return TORCH_DTYPES[dtype] * math.prod(shape)
    try:
        import numpy
    except ImportError:
        raise ValueError(f"a numpy array of {dtype!r}, and this host has no numpy") from None
    found = numpy.dtype(dtype)
    if found.hasobject or found.names or found.kind not in "biufcSUmM" or found.str != dtype:
        raise ValueError(f"unknown dtype {dtype!r}")
    return int(found.itemsize) * math.prod(shape)


def find_torch_class(name: str, fields: Sequence[str]) -> Any:
    """Return torch's own named tuple of that name, which its layers ask for; None if there is none."""
    # A batch that arrived with tensors has imported it.
    torch = sys.modules.get("torch")
    found = torch.nn.utils.rnn.PackedSequence if torch is not None and name == "PackedSequence" else None
    return found if found is not None and found._fields == tuple(fields) else None
