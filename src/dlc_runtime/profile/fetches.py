"""What preparing batches costs a worker process, kept in a file of its own that outlives it. Knows no framework."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import struct
import time
from typing import NamedTuple

FOLDER = "DLC_PROFILE_FETCHES"  # set for workers that are started anew
LAYOUT = struct.Struct("qdd")


class Fetches(NamedTuple):
    """Batches, CPU seconds, and seconds that their fetching took."""

    batches: int = 0
    cpu: float = 0.0
    seconds: float = 0.0

    def plus(self, other: Fetches) -> Fetches:
        return Fetches(self.batches + other.batches, self.cpu + other.cpu, self.seconds + other.seconds)


def cpu_seconds() -> float:
    """Of this process, and of the programs that it ran."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class WorkerFile:
    """Written in a worker. All of its CPU time since its first batch counts: a thread of it also sends the batches."""

    def __init__(self, folder: str) -> None:
        self.process = os.getpid()
        self._total = Fetches()
        self._first = cpu_seconds()
        self._began = 0.0
        descriptor = os.open(os.path.join(folder, str(self.process)), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, LAYOUT.size)
            self._memory = mmap.mmap(descriptor, LAYOUT.size)
        finally:
            os.close(descriptor)

    def begin(self) -> None:
        self._began = time.perf_counter()

    def end(self) -> None:
        total = self._total
        seconds = total.seconds + time.perf_counter() - self._began
        self._total = Fetches(total.batches + 1, cpu_seconds() - self._first, seconds)
        LAYOUT.pack_into(self._memory, 0, *self._total)


def read(folder: str, pids: set[int]) -> Fetches:
    """The sum over these workers; one that has made no batch yet has no file."""
    total = Fetches()
    for pid in sorted(pids):
        with contextlib.suppress(OSError, struct.error), open(os.path.join(folder, str(pid)), "rb") as file:
            total = total.plus(Fetches(*LAYOUT.unpack(file.read(LAYOUT.size))))
    return total
