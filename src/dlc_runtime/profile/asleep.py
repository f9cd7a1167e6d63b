"""What workers that are asleep wait in, by the kernel's word for it (`wchan`). Imports no framework."""

from __future__ import annotations

import contextlib
import os

from dlc_runtime.profile.fetches import is_fetching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SLEEP, LOCK, FILES, SOCKETS, PIPES, PROGRAMS, OTHER = "sleep", "lock", "files", "sockets", "pipes", "programs", "other"
# Parts of the names of the kernel's functions. The first that fits decides.
NAMES = (
    ("nanosleep", SLEEP), ("futex", LOCK), ("do_wait", PROGRAMS), ("pipe", PIPES),
    *((part, SOCKETS) for part in ("wait_woken", "sk_wait", "unix_stream", "skb", "tcp_", "inet_", "poll", "select")),
    *((part, FILES) for part in ("folio", "page", "bio", "blk", "iomap", "dio", "filemap", "ext4", "xfs", "nfs", "rpc_",
                                 "fuse", "request_wait_answer", "flock", "lookup", "v9fs", "p9_", "ceph", "lustre")),
)  # fmt: skip


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
