"""The memory of one array: of a tensor or a numpy array when it is sent, and the array again over memory received.

torch and numpy are used only if the process has imported them (to send) or a batch that arrives holds such an array.
Kinds: "T" tensor, "A" numpy array, "S" numpy scalar, "B" bytes.
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import UnsupportedBatchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional, Protocol

    class Buffer(Protocol):
        """Memory that a batch was received into."""

        memory: memoryview
        owner: Any  # what exports it as a buffer; who holds this keeps the memory

        @property
        def flat(self) -> Any:
            """All of it as a tensor of uint8."""

    Memory = tuple[str, str, Sequence[int], Optional[memoryview], Any]  # kind, dtype, shape, memory, its owner

KINDS = ("T", "A", "S", "B")
# Name in torch -> bytes of an element; a torch that lacks one cannot send or receive it.
TORCH_DTYPES = {
    **dict.fromkeys(("uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float8_e8m0fnu",), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "complex32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
}
_READ = 0x100  # PyBUF_READ
_from_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_from_memory.restype = ctypes.py_object
_from_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def memory_of(node: Any, place: str) -> Memory | None:
    """None for what is no array. Raises UnsupportedBatchError for an array that does not travel."""
    if isinstance(node, (bytes, bytearray)):
        return "B", "", (len(node),), memoryview(bytes(node)) if node else None, node
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(node, torch.Tensor):
        return _tensor(torch, node, place)
    if numpy is not None and isinstance(node, (numpy.ndarray, numpy.generic)):
        return _array(numpy, node, place)
    return None


def _tensor(torch: Any, node: Any, place: str) -> Memory:
    dtype = str(node.dtype).rpartition(".")[2]
    is_dense = node.layout is torch.strided and not getattr(node, "is_nested", False)
    if dtype not in TORCH_DTYPES or not is_dense or node.device.type != "cpu":
        raise UnsupportedBatchError(
            f"{place}: a tensor of {node.dtype}, {node.layout} on {node.device} does not travel; expected a dense"
            " tensor on the CPU; convert it in collate"
        )
    tensor = node.detach().contiguous()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    size = tensor.numel() * tensor.element_size()
    memory = _from_memory(tensor.data_ptr(), size, _READ) if size else None
    return "T", dtype, tuple(tensor.shape), memory, tensor


def _array(numpy: Any, node: Any, place: str) -> Memory:
    if isinstance(node, numpy.ma.MaskedArray):
        raise UnsupportedBatchError(f"{place}: a masked array would arrive without its mask; send mask and data as two")
    array = numpy.ascontiguousarray(node).reshape(node.shape)
    if array.dtype.hasobject or array.dtype.names or array.dtype.kind not in "biufcSUmM":
        raise UnsupportedBatchError(
            f"{place}: a numpy array of {array.dtype} does not travel; expected numbers or text"
        )
    kind = "A" if isinstance(node, numpy.ndarray) else "S"
    memory = memoryview(array.reshape(-1).view(numpy.uint8)) if array.nbytes else None
    return kind, array.dtype.str, array.shape, memory, array


def size_of(kind: str, dtype: str, shape: Sequence[int]) -> int:
    """Bytes. Raises ValueError for a dtype that nobody sends, and for a numpy array where numpy is not installed."""
    if kind == "B":
        (size,) = shape
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


def class_of(name: str, fields: Sequence[str]) -> Any:
    """torch's own class of named tuples of that name, which its layers ask for; None where there is none."""
    torch = sys.modules.get("torch")  # a batch that arrived with tensors has imported it
    found = torch.nn.utils.rnn.PackedSequence if torch is not None and name == "PackedSequence" else None
    return found if found is not None and found._fields == tuple(fields) else None


def over(kind: str, dtype: str, shape: Sequence[int], buffer: Buffer, start: int, size: int) -> Any:
    """The array over `size` bytes of the buffer from `start` on, which it keeps alive."""
    if kind == "B":
        return bytes(buffer.memory[start : start + size]) if size else b""
    if kind == "T":
        import torch

        if not size:
            return torch.empty(tuple(shape), dtype=getattr(torch, dtype))
        flat, own = buffer.flat[start : start + size], getattr(torch, dtype)
        try:
            return flat.view(own).view(tuple(shape))
        except RuntimeError:  # PyTorch 1.10 views no elements of another size
            return torch.frombuffer(flat.numpy(), dtype=own).view(tuple(shape))
    import numpy

    if not size:
        return numpy.empty(tuple(shape), dtype)
    found = numpy.frombuffer(buffer.owner, numpy.uint8, size, start).view(dtype).reshape(tuple(shape))
    return found if kind == "A" else found[()]
