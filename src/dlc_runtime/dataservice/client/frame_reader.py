"""What a worker's frames bring: a batch, whose arrays lie in one buffer, or why there is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.errors import (
    BatchTooLargeError,
    DataServiceError,
    ProtocolError,
    RemoteUserError,
    UnsupportedBatchError,
)
from dlc_runtime.dataservice.wire import serialization

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Every dtype may begin there.
ALIGN_BYTES = 64


class RemoteFailure(NamedTuple):
    """A worker's words instead of a batch."""

    told: dict[str, Any]

    def error(self) -> DataServiceError:
        """Make the error that the data host reported."""
        told = self.told
        kind, host = str(told.get("type", "")), str(told.get("host", "?"))
        own = {"UnsupportedBatchError": UnsupportedBatchError, "BatchTooLargeError": BatchTooLargeError}
        if told.get("ours") and kind in own:
            return own[kind](f"on the data host {host}: {told.get('message')}")
        return RemoteUserError(
            f"{kind} in the user's code on the data host {host} (worker {told.get('worker')}, pid {told.get('pid')},"
            f" samples {told.get('indices')}): {told.get('message')}\n\n{told.get('traceback')}",
            kind,
            host,
            str(told.get("traceback")),
        )


class Arrival(NamedTuple):
    """A batch, or a RemoteFailure in its place."""

    epoch: int
    id: int
    batch: Any
    size: int


class Layout(NamedTuple):
    """A schema's arrays in a buffer, each as (start, size); `views` make arrays that keep the buffer alive."""

    schema: serialization.Schema
    places: tuple[tuple[int, int], ...]
    size: int
    views: tuple[Callable[[Any], Any], ...]


def make_layout(schema: serialization.Schema) -> Layout:
    places, views, at = [], [], 0
    for leaf in schema.arrays:
        places.append((at, leaf.size))
        views.append(_make_view(leaf, at))
        at += -(-leaf.size // ALIGN_BYTES) * ALIGN_BYTES
    return Layout(schema, tuple(places), at, tuple(views))


def _make_view(leaf: serialization.Leaf, start: int) -> Callable[[Any], Any]:
    """Make a function from a buffer to a leaf's array. What all batches share is found out once, here."""
    kind, dtype, shape, size = leaf
    if kind == "B":
        return lambda buffer: bytes(buffer.memory[start : start + size]) if size else b""
    if kind == "T":
        return _tensor_view(dtype, shape, start, size)
    import numpy

    def array(buffer: Any) -> Any:
        if not size:
            return numpy.empty(shape, dtype)
        found = numpy.frombuffer(buffer.owner, numpy.uint8, size, start).view(dtype).reshape(shape)
        return found if kind == "A" else found[()]

    return array


def _tensor_view(dtype: str, shape: tuple[int, ...], start: int, size: int) -> Callable[[Any], Any]:
    import torch

    own = getattr(torch, dtype)
    try:
        import numpy

        is_known = torch.from_numpy(numpy.empty(0, dtype)).dtype is own
    except (ImportError, TypeError, RuntimeError):
        # Numpy has no such numbers, or torch was made for another numpy.
        is_known = False

    def tensor(buffer: Any) -> Any:
        if not size:
            return torch.empty(shape, dtype=own)
        if buffer.is_pinned:
            flat = buffer.flat[start : start + size]
            try:
                return flat.view(own).view(shape)
            except RuntimeError:
                # PyTorch 1.10 views no elements of another size.
                return torch.frombuffer(flat.numpy(), dtype=own).view(shape)
        # Takes half as long as torch.frombuffer.
        if is_known:
            return torch.from_numpy(numpy.ndarray(shape, dtype, buffer.owner, start))
        count = size // serialization.TORCH_DTYPES[dtype]
        return torch.frombuffer(buffer.owner, dtype=own, count=count, offset=start).view(shape)

    return tensor


def read_failure(text: bytearray) -> dict[str, Any]:
    try:
        told = json.loads(bytes(text))
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ProtocolError(f"expected what went wrong, found {bytes(text[:100])!r}")
    return told
