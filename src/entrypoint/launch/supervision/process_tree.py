"""Every process below this one, from /proc: also those in other sessions and those without a parent."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence


# linux/prctl.h; since Linux 3.4
PR_SET_CHILD_SUBREAPER = 36
# Of a command line, these are looked at
LONGEST_COMMAND_BYTES = 1 << 12


def adopt_orphans() -> bool:
    """Make orphaned descendants children of this process instead of PID 1's; False if the kernel cannot.

    A daemon that forked twice then still shows up below us, to be signalled and reaped. PID 1 adopts them anyway.
    """
    if os.getpid() == 1:
        return True
    # Here because it costs 1.5 ms, and PID 1 does not need it
    import ctypes

    return int(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0


def find_descendants(root: int | None = None) -> list[int]:
    """Return process ids below `root` (default: this process), parents before children. Zombies are left out."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            pid = int(entry)
            state_and_parent = _state_and_parent(pid)
            if state_and_parent and state_and_parent[0] != "Z":
                children.setdefault(state_and_parent[1], []).append(pid)
    found = list(children.get(os.getpid() if root is None else root, ()))
    # Grows while it is walked: breadth first
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def find_orphans(but: Container[int]) -> list[int]:
    """Return what parents that have ended left to this process; `but` are its own children."""
    me = os.getpid()
    return [pid for pid in find_descendants() if pid not in but and parent_of(pid) == me]


def parent_of(pid: int) -> int:
    """Return the parent's pid; 0 for a process that is gone."""
    state = _state_and_parent(pid)
    return state[1] if state else 0


def cpu_ticks(pid: int) -> int:
    """Return the user and system time of a process in clock ticks; 0 if it is gone."""
    fields = _read_stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def is_running(pid: int) -> bool:
    """Return whether the process is there and no zombie."""
    fields = _read_stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def is_paused(pid: int) -> bool:
    """Return whether the process is stopped by SIGSTOP or the like: it hears no other signal until SIGCONT."""
    return _read_stat(pid)[:1] == ["T"]


def signal_all(signum: int, catchers_only: bool = False, but: Container[int] = ()) -> list[int]:
    """Send a signal to every descendant, or to those that have a handler for it; returns those it was sent to.

    `but` are left out.
    """
    wanted = [pid for pid in find_descendants() if pid not in but]
    return [
        pid for pid in wanted if not (catchers_only and not catches_signal(pid, signum)) and send_signal(pid, signum)
    ]


def send_signal(pid: int, signum: int) -> bool:
    """Send the signal; return whether the process is there, and is no set-uid program of another user."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def stop_signal(pid: int, signum: int) -> int:
    """Return the signal by which a process hears of a stop: as it came if it has a handler, else SIGTERM."""
    as_it_is = signum in (signal.SIGTERM, signal.SIGINT) or catches_signal(pid, signum)
    return signum if as_it_is else signal.SIGTERM


def catches_signal(pid: int, signum: int) -> bool:
    """Return whether the process has a handler for the signal."""
    return has_signal(signal_masks(pid), "SigCgt", signum)


def signal_masks(pid: int) -> dict[str, int]:
    """Read SigCgt, SigIgn and their like from /proc/PID/status."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            lines = [line.split(":", 1) for line in file if line.startswith("Sig")]
    except OSError:
        return {}
    return {name: int(mask, 16) for name, mask in lines if name != "SigQ"}


def has_signal(masks: dict[str, int], kind: str, signum: int) -> bool:
    """Return whether the mask of this kind holds the signal."""
    return bool(masks.get(kind, 0) >> (signum - 1) & 1)


def command_of(pid: int) -> tuple[str, ...]:
    """Return the command line; () for a process that is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read(LONGEST_COMMAND_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.rstrip("\0").split("\0")) if text else ()


def list_processes(pids: Sequence[int]) -> str:
    """Name the first of these processes as a message does."""
    shown = ", ".join(describe_process(pid) for pid in pids[:5])
    return shown + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")


def describe_process(pid: int) -> str:
    """Return `pid (command line)` for a message; `pid ([name])`, as ps does, if it is ending and has none any more."""
    words = " ".join(" ".join(command_of(pid))[:120].split())
    return f"{pid} ({words or _name_of(pid) or 'gone'})"


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return f"[{file.read().strip()}]"
    except OSError:
        return ""


def reap_children() -> tuple[list[tuple[int, int]], bool]:
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


def _read_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third (state) on; empty if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses and may itself hold blanks and parentheses.
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return []


def _state_and_parent(pid: int) -> tuple[str, int] | None:
    fields = _read_stat(pid)
    return (fields[0], int(fields[1])) if fields else None
