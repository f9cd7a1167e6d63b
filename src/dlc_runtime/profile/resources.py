"""CPU seconds, memory and GPU use of this process and its container, from /proc, control groups and nvidia-smi."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time

from dlc_runtime.host import GROUPS, usable
from dlc_runtime.profile.fetches import queued_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
# Share of the host's work: a container that took more is the host, or has it for itself.
OWN_GROUP = 0.9


def _number(path: str) -> int:
    with open(path) as file:
        return int(file.read())


def container_seconds(groups: str = GROUPS) -> float | None:
    """Return CPU seconds of this container's processes so far; on a plain host of the host. None: no file says it."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(os.path.join(groups, "cpu.stat")) as file:
            values = dict(line.split() for line in file)
        return int(values["usage_usec"]) / 1e6
    with contextlib.suppress(OSError, ValueError):
        return _number(os.path.join(groups, "cpuacct", "cpuacct.usage")) / 1e9
    return None


def tree_seconds(root: int) -> float:
    """Return CPU seconds of a process and its descendants, also of those that ended and were waited for."""
    parents, seconds = _processes()
    return sum(value for pid, value in seconds.items() if _descends(pid, root, parents))


def descendants(root: int) -> list[int]:
    """Return the processes below a process that run now."""
    parents, _ = _processes()
    return [pid for pid in parents if pid != root and _descends(pid, root, parents)]


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    """Return of every process its parent, and its CPU seconds."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                parents[int(name)], seconds[int(name)] = _process(int(name))
    return parents, seconds


def _process(pid: int) -> tuple[int, float]:
    with open(f"/proc/{pid}/stat") as file:
        # A program's name may hold spaces and parentheses.
        fields = file.read().rpartition(")")[2].split()
    return int(fields[1]), sum(int(field) for field in fields[11:15]) / TICKS


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root


def host_seconds(stat: str = "/proc/stat") -> float | None:
    """Return CPU seconds that the host's processors have worked, for whomever. None: no file says it."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(stat) as file:
        user, nice, system, _idle, _waiting, *others = (int(word) for word in file.readline().split()[1:9])
        return (user + nice + system + sum(others)) / TICKS
    return None


def stolen_seconds(stat: str = "/proc/stat") -> float | None:
    """Return seconds that this virtual host's processors waited for the host below. None: no file says it."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(stat) as file:
        return int(file.readline().split()[8]) / TICKS
    return None


def pressure_seconds(path: str) -> float | None:
    """Return seconds in which something stood in line for a processor (PSI). None: no file says it."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
        return int(file.readline().rpartition("total=")[2]) / 1e6
    return None


def seconds_of_others(host: float | None, container: float | None, tree: float, ranks: int) -> float | None:
    """Return CPU seconds of the host that this job did not take. None: it cannot be told.

    A container that took all that the host did may be the host itself: then a rank knows its own processes alone.
    """
    if host is None:
        return None
    if container is not None and container < OWN_GROUP * host:
        return host - max(container, tree)
    return max(host - tree, 0.0) if ranks == 1 else None


def is_whole_host(groups: str = GROUPS) -> bool:
    """Tell whether this is no container: the group of all of a host's processes has no type."""
    return os.path.exists(os.path.join(groups, "cpu.stat")) and not os.path.exists(os.path.join(groups, "cgroup.type"))


def seconds_of_job(container: float | None, tree: float, *, alone: bool) -> float:
    """Return CPU seconds of this job; `alone` says that it is one rank on a plain host, beside other programs."""
    return tree if container is None or alone else max(container, tree)


class Processors:
    """What the CPUs did since it was made."""

    def __init__(self, ranks: int = 1) -> None:
        self.usable = usable()
        self._ranks = ranks
        self._began = time.monotonic()
        self._container, self._tree = container_seconds(), tree_seconds(os.getpid())
        self._host, self._stolen, self._pressure = host_seconds(), stolen_seconds(), self._pressures()

    def _pressures(self) -> dict[str, float | None]:
        container = pressure_seconds(os.path.join(GROUPS, "cpu.pressure"))
        return {"container": container, "host": pressure_seconds("/proc/pressure/cpu")}

    def as_json(self) -> dict[str, Any]:
        """Return shares; `others` are the processors that other programs took, `pressure` shares of the time."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        tree = max(tree_seconds(os.getpid()) - self._tree, 0.0)
        container = increase(self._container, container_seconds())
        host, stolen = increase(self._host, host_seconds()), increase(self._stolen, stolen_seconds())
        whole = seconds_of_job(container, tree, alone=self._ranks == 1 and is_whole_host())
        taken = seconds_of_others(host, container, tree, self._ranks)
        waited = {name: increase(self._pressure[name], now) for name, now in self._pressures().items()}
        return {
            "usable": self.usable,
            "busy": min(whole / (seconds * self.usable), 1.0),
            "seconds": seconds,
            "job_cpu_seconds": tree,
            "host": os.cpu_count() or 1,
            "stolen": None if stolen is None else stolen / seconds,
            "others": None if taken is None else taken / seconds,
            "pressure": {name: None if value is None else min(value / seconds, 1.0) for name, value in waited.items()},
        }


def increase(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else max(now - before, 0.0)


QUERY = (
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.used,name",
    "--format=csv,noheader,nounits",
    "--loop=1",
)
# Only a bound
ENDS_SECONDS = 5.0


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class Gpus:
    """Samples of nvidia-smi; without it nothing is known."""

    def __init__(self, command: tuple[str, ...] = QUERY) -> None:
        self._lock = threading.Lock()
        # Index -> samples, use, most memory, name.
        self._sums: dict[str, tuple[int, float, float, str]] = {}
        self._child = None
        with contextlib.suppress(OSError):
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                errors="replace",
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="dlc-profile-gpus", daemon=True)
        if self._child is not None:
            self._reader.start()

    def _read(self) -> None:
        child = self._child
        for line in child.stdout if child is not None and child.stdout is not None else ():
            fields = [field.strip() for field in line.split(",", 3)]
            # A message, such as that it cannot talk with the driver; `[N/A]` of a GPU that does not say its use.
            if len(fields) != 4 or not is_number(fields[1]):
                continue
            index, use, memory, name = fields
            with self._lock:
                samples, total, most, _ = self._sums.get(index, (0, 0.0, 0.0, ""))
                # GPUs that share the host's memory do not tell theirs.
                most = max(most, float(memory)) if is_number(memory) else most
                self._sums[index] = (samples + 1, total + float(use), most, name)

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(ENDS_SECONDS)
            self._reader.join(ENDS_SECONDS)
            if self._child.stdout is not None and not self._reader.is_alive():
                self._child.stdout.close()

    def as_json(self) -> dict[str, Any] | None:
        with self._lock:
            found = dict(self._sums)
        if not found:
            return None
        each = [
            {"index": index, "name": name, "use": use / samples / 100, "memory_mib": memory}
            for index, (samples, use, memory, name) in sorted(found.items())
        ]
        shares = [use / samples / 100 for samples, use, _, _ in found.values()]
        return {"use": sum(shares) / len(shares), "gpus": each}


KIB = 1024
# Version 1 of the control groups writes a number near 2**63 if there is no limit.
NO_LIMIT = 1 << 60
# In clear_refs: the kernel begins to look for the highest resident size again.
RESET_PEAK = "5"
# Fields of smaps_rollup: shared memory counts by its part.
OWN = ("Pss_Anon", "Pss_Shmem", "SwapPss")


class Framework:
    """What the profile asks of a framework; this class answers for none."""

    name = "python"
    # Whether threads without a name prepare batches, and not workers or the training thread.
    threads_prepare = False

    def queued(self) -> float | None:
        """Return the seconds that this thread has stood in line for a processor; None: unknown."""
        return queued_seconds()

    def settle(self) -> None:
        """Wait until the accelerator has done what it was given."""

    def rank(self) -> int | None:
        """Return this process's rank, if the script gave itself one."""
        return None

    def compilations(self) -> int:
        """Return a number that changes when something is compiled."""
        return 0

    def device_memory(self) -> tuple[int, int | None] | None:
        """Return bytes of this process's accelerator: the most that was taken, and its total. None: it uses none."""
        return None

    def forget_device_peak(self) -> None:
        """Begin to look for the peak again."""


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
        """Return bytes: `peak` from the start on, `steady` after the first steps, `limit` of all (None: unknown)."""
        host, device = host_peak(), self._framework.device_memory()
        return {
            "host": {"peak": max(self._host_before, host), "steady": host, "limit": container_limit()},
            "device": {"peak": max(self._device_before, device[0]), "steady": device[0], "limit": device[1]}
            if device
            else None,
        }


def host_peak(pid: int | None = None) -> int:
    """Count bytes that the kernel could not take back: this process's highest, its children's as they are now.

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
    """Return the numbers of a file of /proc, in bytes; none if the process has just ended."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            words = line.replace(":", " ").split()
            if len(words) == 3 and words[2] == "kB" and words[1].isdigit():
                found[words[0]] = int(words[1]) * KIB
    return found


def container_limit(groups: str = GROUPS) -> int | None:
    """Return the bytes that this container may take; None: no limit of its own."""
    for path in ("memory.max", os.path.join("memory", "memory.limit_in_bytes")):  # version 2, version 1
        with contextlib.suppress(OSError, ValueError), open(os.path.join(groups, path)) as file:
            limit = int(file.read())
            return limit if limit < NO_LIMIT else None
    return None
