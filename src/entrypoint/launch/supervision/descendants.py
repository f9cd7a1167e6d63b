"""Every process below this one, also those in sessions of their own and those whose parent is gone."""

from __future__ import annotations

import os

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h; since Linux 3.4


def adopt_orphans() -> bool:
    """Make orphaned descendants children of this process instead of PID 1's; False where the kernel cannot.

    A daemon that forked twice then still shows up below us, to be signalled and reaped. PID 1 adopts them anyway.
    """
    if os.getpid() == 1:
        return True
    import ctypes  # here because it costs 1.5 ms, and PID 1 does not need it

    return int(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0


def descendants(root: int | None = None) -> list[int]:
    """Process ids below `root` (default: this process), parents before children. Zombies are left out."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            pid = int(entry)
            state_and_parent = _state_and_parent(pid)
            if state_and_parent and state_and_parent[0] != "Z":
                children.setdefault(state_and_parent[1], []).append(pid)
    found = list(children.get(os.getpid() if root is None else root, ()))
    for pid in found:  # grows while it is walked: breadth first
        found.extend(children.get(pid, ()))
    return found


def cpu_ticks(pid: int) -> int:
    """User plus system time that the process has used, in clock ticks; 0 for one that is gone."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def signal_all(signum: int, catchers_only: bool = False) -> list[int]:
    """Send a signal to every descendant, or to those that have a handler for it; returns those it was sent to."""
    reached = []
    for pid in descendants():
        if catchers_only and not _catches(pid, signum):
            continue
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            continue
        except PermissionError:  # a set-uid program; its unprivileged relatives still get theirs
            continue
        reached.append(pid)
    return reached


def _catches(pid: int, signum: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            masks = dict(line.split(b":", 1) for line in file if line.startswith(b"Sig"))
    except OSError:
        return False
    return bool(int(masks[b"SigCgt"], 16) >> (signum - 1) & 1)


def describe(pid: int) -> str:
    """`pid (command line)` for a message."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = " ".join(file.read(120).replace(b"\0", b" ").decode("utf-8", "replace").split())
    except OSError:
        command = ""
    return f"{pid} ({command or 'gone'})"


def reap() -> tuple[list[tuple[int, int]], bool]:
    """Collect every child that has ended, without waiting: (pid, wait status) each, and whether any child is left.

    With orphans adopted, no child left means that nothing at all is left below this process.
    """
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, status))


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third (state) on; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses and may itself hold blanks and parentheses.
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return []


def _state_and_parent(pid: int) -> tuple[str, int] | None:
    fields = _stat(pid)
    return (fields[0], int(fields[1])) if fields else None
