"""The frames of a data connection: fixed headers and their bounds. Pure.

After the handshake (`dlc_channel`) the consumer sends requests, the server frames: a header, then `size` bytes.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from dlc_runtime.dataservice.errors import ProtocolError

# Kinds of frames.
BATCH, SCHEMA, ERROR, END = range(1, 5)
# Bytes of a schema, of an error, or of what a batch holds beside its tensors.
MOST_TEXT = 1 << 20
# That a connection remembers.
MOST_SCHEMAS = 256
# Bytes, unless the user says otherwise.
MOST_BATCH = 1 << 30

_FRAME = struct.Struct("<2sBBIIIQQ")
_REQUEST = struct.Struct("<2sHIQ")
FRAME = _FRAME.size
REQUEST = _REQUEST.size
_FRAME_MARK = b"DF"
_REQUEST_MARK = b"DQ"


class Frame(NamedTuple):
    """A header. `extras`: how many of the `size` bytes are JSON and come first; `schema` describes the rest."""

    kind: int
    epoch: int
    id: int
    size: int
    schema: int = 0
    extras: int = 0

    def packed(self) -> bytes:
        return pack_frame(*self)


class BatchRequest(NamedTuple):
    epoch: int
    id: int

    def packed(self) -> bytes:
        return _REQUEST.pack(_REQUEST_MARK, 0, self.epoch, self.id)


def pack_frame(kind: int, epoch: int, id_: int, size: int, schema: int = 0, extras: int = 0) -> bytes:
    """Return a header's bytes."""
    return _FRAME.pack(_FRAME_MARK, kind, 0, schema, extras, epoch, id_, size)


def read_frame(data: bytes | bytearray | memoryview, most_batch: int) -> Frame:
    """Read a header. Raises ProtocolError for anything else, and for one beyond the bounds."""
    mark, kind, zero, schema, extras, epoch, id_, size = _FRAME.unpack_from(data)
    if mark != _FRAME_MARK or zero or not BATCH <= kind <= END or schema >= MOST_SCHEMAS:
        raise ProtocolError(f"expected a frame of the data service, found {bytes(data)[:FRAME]!r}")
    most = most_batch + MOST_TEXT if kind == BATCH else MOST_TEXT
    if size > most or extras > min(size, MOST_TEXT):
        raise ProtocolError(f"a frame of {size} bytes ({extras} of them text); the bound is {most}")
    return Frame(kind, epoch, id_, size, schema, extras)


def read_request(data: bytes | bytearray | memoryview, at: int = 0) -> BatchRequest:
    """Read a request. Raises ProtocolError for anything else."""
    mark, zero, epoch, id_ = _REQUEST.unpack_from(data, at)
    if mark != _REQUEST_MARK or zero:
        raise ProtocolError(f"expected a request, found {bytes(data[at : at + REQUEST])!r}")
    return BatchRequest(epoch, id_)
