"""What fetching batches costs the processes that fetch them, what they wait in, and how workers tell it.

Imports no framework.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import struct
import time
from statistics import median
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Set for workers that are started anew.
FOLDER = "DLC_PROFILE_FETCHES"
LAYOUT = struct.Struct("qddd")
# Behind that 1 while a batch is fetched, else 0.
STATE = struct.Struct("q")
HEAD_BYTES = LAYOUT.size + STATE.size
# The last fetches of a worker whose seconds are kept behind that, each of this form.
KEPT_FETCHES = 2000
DURATION = struct.Struct("d")
FILE_BYTES = HEAD_BYTES + KEPT_FETCHES * DURATION.size
# A batch is slow if it takes so many times the median, and is one of the slowest tenth.
SLOW, FEWEST = 5.0, 10
# What a process waits in, by the kernel's word for it (`wchan`).
SLEEP, LOCK, FILES, SOCKETS, PIPES, PROGRAMS, OTHER = "sleep", "lock", "files", "sockets", "pipes", "programs", "other"
# Parts of the names of the kernel's functions. The first that fits decides.
NAMES = (
    ("nanosleep", SLEEP), ("futex", LOCK), ("do_wait", PROGRAMS), ("pipe", PIPES),
    *((part, SOCKETS) for part in ("wait_woken", "sk_wait", "unix_stream", "skb", "tcp_", "inet_", "poll", "select")),
    *((part, FILES) for part in ("folio", "page", "bio", "blk", "iomap", "dio", "filemap", "ext4", "xfs", "nfs", "rpc_",
                                 "fuse", "request_wait_answer", "flock", "lookup", "v9fs", "p9_", "ceph", "lustre")),
)  # fmt: skip


class Fetches(NamedTuple):
    """The cost of fetched batches: CPU seconds, seconds, and those of them in line for a CPU."""

    batches: int = 0
    cpu: float = 0.0
    seconds: float = 0.0
    queued: float = 0.0

    @property
    def asleep_or_computing(self) -> float:
        """Return the seconds without those in line: other programs make no batch a slow one."""
        return max(self.seconds - self.queued, 0.0)

    def plus(self, other: Fetches) -> Fetches:
        seconds, queued = self.seconds + other.seconds, self.queued + other.queued
        return Fetches(self.batches + other.batches, self.cpu + other.cpu, seconds, queued)


def cpu_seconds() -> float:
    """Return those of this process, and of the programs that it ran."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def queued_seconds(schedstat: str = "/proc/thread-self/schedstat") -> float | None:
    """Return how long this thread stood in line for a CPU since it began; None if the kernel does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(schedstat) as file:
        return int(file.read().split()[1]) / 1e9
    return None


class Fetch:
    """What one batch costs the thread that fetches it, from here to `end`."""

    def __init__(self) -> None:
        self._cpu, self._began, self._queued = cpu_seconds(), time.perf_counter(), queued_seconds() or 0.0

    def end(self) -> Fetches:
        seconds = time.perf_counter() - self._began
        return Fetches(1, cpu_seconds() - self._cpu, seconds, (queued_seconds() or 0.0) - self._queued)


class WorkerFile:
    """Written in a worker. All of its CPU time since its first batch counts: a thread of it also sends the batches."""

    def __init__(self, folder: str) -> None:
        self.process = os.getpid()
        self._total = Fetches()
        self._first = cpu_seconds()
        self._fetch = Fetch()
        descriptor = os.open(os.path.join(folder, str(self.process)), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, FILE_BYTES)
            self._memory = mmap.mmap(descriptor, FILE_BYTES)
        finally:
            os.close(descriptor)

    def begin(self) -> None:
        STATE.pack_into(self._memory, LAYOUT.size, 1)
        self._fetch = Fetch()

    def end(self) -> None:
        fetch = self._fetch.end()
        STATE.pack_into(self._memory, LAYOUT.size, 0)
        if self._total.batches:
            slot = (self._total.batches - 1) % KEPT_FETCHES
            DURATION.pack_into(self._memory, HEAD_BYTES + slot * DURATION.size, fetch.asleep_or_computing)
        self._total = self._total.plus(fetch)._replace(cpu=cpu_seconds() - self._first)
        LAYOUT.pack_into(self._memory, 0, *self._total)


def read_fetches(folder: str, pids: set[int]) -> tuple[Fetches, list[float]]:
    """Return the sum over these workers, and the seconds of each batch but their first; some have no file yet."""
    total, durations = Fetches(), []
    for pid in sorted(pids):
        with contextlib.suppress(OSError, struct.error), open(os.path.join(folder, str(pid)), "rb") as file:
            found = Fetches(*LAYOUT.unpack(file.read(LAYOUT.size)))
            file.seek(HEAD_BYTES)
            kept = file.read(DURATION.size * min(max(found.batches - 1, 0), KEPT_FETCHES))
            durations += [seconds for (seconds,) in DURATION.iter_unpack(kept)]
            total = total.plus(found)
    return total, durations


def is_fetching(path: str) -> bool:
    """Tell whether the worker with this file fetches a batch now."""
    with open(path, "rb") as file:
        file.seek(LAYOUT.size)
        return file.read(STATE.size) == STATE.pack(1)


class Slow(NamedTuple):
    """How many of the batches are slow, and which share of the time of all they took."""

    batches: int
    of: int
    share: float


def find_slow(durations: Sequence[float]) -> Slow:
    """Find the few batches that took many times as long as most."""
    bound = SLOW * median(durations) if durations else 0.0
    largest = sorted(durations)[len(durations) - len(durations) // FEWEST :]
    slow, whole = [each for each in largest if each > bound], sum(durations)
    return Slow(len(slow), len(durations), sum(slow) / whole if whole else 0.0)


def classify(name: str) -> str | None:
    """Return what a process waits in; None if it runs, or if the kernel does not say."""
    if name in ("", "0"):
        return None
    return next((kind for part, kind in NAMES if part in name), OTHER)


class Asleep:
    """Looks at one worker in each step of training: what it waits in, if it fetches a batch at that moment."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self._turn = 0

    def look(self, folder: str, pids: Iterable[int]) -> None:
        """Look at the worker whose turn it is."""
        workers = sorted(pids)
        if not workers:
            return
        self._turn += 1
        pid = workers[self._turn % len(workers)]
        with contextlib.suppress(OSError, ValueError):
            if is_fetching(os.path.join(folder, str(pid))):
                with open(f"/proc/{pid}/wchan") as file:
                    kind = classify(file.read().strip())
                if kind:
                    self.seen[kind] = self.seen.get(kind, 0) + 1
