"""The most memory that this process and its children have taken, of the host and of its accelerator. Reads /proc."""

from __future__ import annotations

import contextlib
import os

from dlc_runtime.profile.processors import descendants
from dlc_runtime.usable_cpus import GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlc_runtime.profile.session import Framework

KIB = 1024
NO_LIMIT = 1 << 60  # version 1 of the control groups writes a number near 2**63 where there is no limit
RESET_PEAK = "5"  # in clear_refs: the kernel begins to look for the highest resident size again
OWN = ("Pss_Anon", "Pss_Shmem", "SwapPss")  # of smaps_rollup: what is shared counts by its part


class Memory:
    """The peak since the process began, and since `mark`, which says that the first steps are over."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._host_before = 0
        self._device_before = 0

    def mark(self) -> None:
        """Begin to look for the peak again: what it was is kept."""
        self._host_before = host_peak()
        device = self._framework.device_memory()
        self._device_before = device[0] if device else 0
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write(RESET_PEAK)
        self._framework.forget_device_peak()

    def as_json(self) -> dict[str, dict[str, int | None] | None]:
        """Bytes: `peak` from the start on, `steady` after the first steps, `limit` is what there is (None: unknown)."""
        host, device = host_peak(), self._framework.device_memory()
        return {
            "host": {"peak": max(self._host_before, host), "steady": host, "limit": container_limit()},
            "device": {"peak": max(self._device_before, device[0]), "steady": device[0], "limit": device[1]}
            if device
            else None,
        }


def host_peak(pid: int | None = None) -> int:
    """Bytes that the kernel could not take back: this process's at their highest, its children's as they are now.

    Pages of files are not in it: under a limit they are dropped before anything is killed.
    """
    pid = os.getpid() if pid is None else pid
    fields = _fields(f"/proc/{pid}/status")
    now = fields.get("RssAnon", 0) + fields.get("RssShmem", 0)
    own = max(fields.get("VmHWM", 0) - fields.get("RssFile", 0), now) + fields.get("VmSwap", 0)
    return own + sum(_taken(child) for child in descendants(pid))


def _taken(pid: int) -> int:
    fields = _fields(f"/proc/{pid}/smaps_rollup")
    if not any(name in fields for name in OWN):
        fields, names = _fields(f"/proc/{pid}/status"), ("RssAnon", "RssShmem", "VmSwap")
        return sum(fields.get(name, 0) for name in names)
    return sum(fields.get(name, 0) for name in OWN)


def _fields(path: str) -> dict[str, int]:
    """The numbers of a file of /proc, in bytes; none where the process has just ended."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            words = line.replace(":", " ").split()
            if len(words) == 3 and words[2] == "kB" and words[1].isdigit():
                found[words[0]] = int(words[1]) * KIB
    return found


def container_limit(groups: str = GROUPS) -> int | None:
    """Bytes that this container may take; None: no limit of its own."""
    for path in ("memory.max", os.path.join("memory", "memory.limit_in_bytes")):  # version 2, version 1
        with contextlib.suppress(OSError, ValueError), open(os.path.join(groups, path)) as file:
            limit = int(file.read())
            return limit if limit < NO_LIMIT else None
    return None
