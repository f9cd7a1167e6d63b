"""Memory that the processes of one data host share: what each worker is doing. One writer per slot."""

from __future__ import annotations

import mmap
import struct
import time
from typing import NamedTuple

_SLOT = struct.Struct("<IIQdQQQQ")
_WORK = struct.Struct("<IQd")
_WORK_AT = 4
_COUNTS = struct.Struct("<QQQQ")
_COUNTS_AT = 24


class Slot(NamedTuple):
    """A worker. `since` is a time of the monotonic clock, which all processes of a host share; 0: it has no work."""

    pid: int
    epoch: int
    id: int
    since: float
    batches: int
    bytes: int
    refused: int  # connections without the token
    malformed: int  # connections that sent what they must not send


class Board:
    """Made before the workers are forked."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._memory = mmap.mmap(-1, slots * _SLOT.size)

    def read(self, slot: int) -> Slot:
        return Slot(*_SLOT.unpack_from(self._memory, slot * _SLOT.size))

    def started(self, slot: int, pid: int) -> None:
        """A worker without work; the counts of the one before it stay."""
        struct.pack_into("<IIQd", self._memory, slot * _SLOT.size, pid, 0, 0, 0.0)

    def begin(self, slot: int, epoch: int, id_: int) -> None:
        _WORK.pack_into(self._memory, slot * _SLOT.size + _WORK_AT, epoch, id_, time.monotonic())

    def end(self, slot: int) -> None:
        _WORK.pack_into(self._memory, slot * _SLOT.size + _WORK_AT, 0, 0, 0.0)

    def count(self, slot: int, batches: int = 0, bytes_: int = 0, refused: int = 0, malformed: int = 0) -> None:
        at = slot * _SLOT.size + _COUNTS_AT
        old = _COUNTS.unpack_from(self._memory, at)
        new = (batches, bytes_, refused, malformed)
        _COUNTS.pack_into(self._memory, at, *(one + more for one, more in zip(old, new)))
