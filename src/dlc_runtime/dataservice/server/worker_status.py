"""Memory shared by a data host's processes: what each worker does; and times in which the host stood still."""

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
# Work and what was made.
_END = struct.Struct("<IQdQQ")
_STRANGERS = struct.Struct("<QQ")
_STRANGERS_AT = 40
# Between two looks at the clock.
LOOK_SECONDS = 0.25
# So long between two looks, the host stood still.
PAUSE_SECONDS = 1.0
MOST_PAUSES = 64


class WorkerStatus(NamedTuple):
    """One worker. `since` is a time of the monotonic clock, which all processes of a host share; 0: it has no work.

    `refused` connections lack the token, `malformed` ones sent what they must not send.
    """

    pid: int
    epoch: int
    id: int
    since: float
    batches: int
    bytes: int
    refused: int
    malformed: int


class StatusTable:
    """The workers' shared memory. Made before they are forked."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._memory = mmap.mmap(-1, slots * _SLOT.size)

    def read(self, slot: int) -> WorkerStatus:
        return WorkerStatus(*_SLOT.unpack_from(self._memory, slot * _SLOT.size))

    def start_worker(self, slot: int, pid: int) -> None:
        """Enter a worker without work; the counts of the one before it stay."""
        struct.pack_into("<IIQd", self._memory, slot * _SLOT.size, pid, 0, 0, 0.0)

    def begin_batch(self, slot: int, epoch: int, id_: int) -> None:
        _WORK.pack_into(self._memory, slot * _SLOT.size + _WORK_AT, epoch, id_, time.monotonic())

    def end_batch(self, slot: int, batches: int = 0, bytes_: int = 0) -> None:
        """Enter that the worker has no work now, and add the batches and bytes that it made."""
        at = slot * _SLOT.size + _WORK_AT
        _, _, _, made, sent = _END.unpack_from(self._memory, at)
        _END.pack_into(self._memory, at, 0, 0, 0.0, made + batches, sent + bytes_)

    def add_strangers(self, slot: int, refused: int = 0, malformed: int = 0) -> None:
        at = slot * _SLOT.size + _STRANGERS_AT
        strange, wrong = _STRANGERS.unpack_from(self._memory, at)
        _STRANGERS.pack_into(self._memory, at, strange + refused, wrong + malformed)


class HostPauses:
    """Times in which the host stood still. Two threads call it: one looks, one answers calls."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._found: deque[tuple[float, float]] = deque(maxlen=MOST_PAUSES)
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Look at the clock for ever."""
        while True:
            time.sleep(LOOK_SECONDS)
            self.note_time(time.monotonic())

    def note_time(self, now: float) -> None:
        """Note a pause if the last look was long ago. `now`: of the monotonic clock."""
        with self._lock:
            if now - self._looked >= PAUSE_SECONDS:
                self._found.append((self._looked, now))
            self._looked = now

    def running_seconds(self, begin: float, now: float) -> float:
        """Return for how many seconds between `begin` and `now` the host ran."""
        # A call may be answered before the watching thread wakes.
        self.note_time(now)
        with self._lock:
            still = sum(max(0.0, min(end, now) - max(start, begin)) for start, end in self._found)
        return now - begin - still
