"""Memory that a data host's processes share: what each worker is doing; and times in which the host stood still."""

from __future__ import annotations

import mmap
import struct
import threading
import time
from collections import deque
from typing import NamedTuple

_SLOT = struct.Struct("<IIQdQQQQ")
_WORK = struct.Struct("<IQd")
_WORK_AT = 4
_COUNTS = struct.Struct("<QQQQ")
_COUNTS_AT = 24


class WorkerStatus(NamedTuple):
    """A worker. `since` is a time of the monotonic clock, which all processes of a host share; 0: it has no work."""

    pid: int
    epoch: int
    id: int
    since: float
    batches: int
    bytes: int
    refused: int  # connections without the token
    malformed: int  # connections that sent what they must not send


class StatusTable:
    """Made before the workers are forked."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._memory = mmap.mmap(-1, slots * _SLOT.size)

    def read(self, slot: int) -> WorkerStatus:
        return WorkerStatus(*_SLOT.unpack_from(self._memory, slot * _SLOT.size))

    def start_worker(self, slot: int, pid: int) -> None:
        """A worker without work; the counts of the one before it stay."""
        struct.pack_into("<IIQd", self._memory, slot * _SLOT.size, pid, 0, 0, 0.0)

    def begin_batch(self, slot: int, epoch: int, id_: int) -> None:
        _WORK.pack_into(self._memory, slot * _SLOT.size + _WORK_AT, epoch, id_, time.monotonic())

    def end_batch(self, slot: int) -> None:
        _WORK.pack_into(self._memory, slot * _SLOT.size + _WORK_AT, 0, 0, 0.0)

    def add_counts(self, slot: int, batches: int = 0, bytes_: int = 0, refused: int = 0, malformed: int = 0) -> None:
        at = slot * _SLOT.size + _COUNTS_AT
        made, sent, strange, wrong = _COUNTS.unpack_from(self._memory, at)
        _COUNTS.pack_into(self._memory, at, made + batches, sent + bytes_, strange + refused, wrong + malformed)


LOOK_SECONDS = 0.25  # seconds between two looks at the clock
PAUSE_SECONDS = 1.0  # seconds between two looks from which on the host stood still
MOST_PAUSES = 64  # pauses that are remembered


class HostPauses:
    """Two threads call it: the one that looks, and those that answer calls."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._found: deque[tuple[float, float]] = deque(maxlen=MOST_PAUSES)
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Look for ever."""
        while True:
            time.sleep(LOOK_SECONDS)
            self.note_time(time.monotonic())

    def note_time(self, now: float) -> None:
        """Nothing of this process ran since the last look if that was long ago. `now`: of the monotonic clock."""
        with self._lock:
            if now - self._looked >= PAUSE_SECONDS:
                self._found.append((self._looked, now))
            self._looked = now

    def running_seconds(self, begin: float, now: float) -> float:
        """Seconds of the time from `begin` to `now` in which the host ran."""
        self.note_time(now)  # a call may be answered before the watching thread wakes
        with self._lock:
            still = sum(max(0.0, min(end, now) - max(start, begin)) for start, end in self._found)
        return now - begin - still
