"""Whether the kernel killed processes of this container for lack of memory: its memory cgroup's counters (v1, v2)."""

from __future__ import annotations

from launch.base.compat import NamedTuple

# Where a container sees its own cgroup; outside one, the path in /proc/self/cgroup is appended.
V2_MOUNT = "/sys/fs/cgroup"
V1_MOUNT = "/sys/fs/cgroup/memory"
# v1 says "no limit" with a number close to 2**63
NO_LIMIT = 1 << 60


class Memory(NamedTuple):
    """What the cgroup says now."""

    # Processes killed for lack of memory since the cgroup exists
    kills: int
    # Bytes; None for no limit of the container's own
    limit: int | None


def read_memory(root: str = "") -> Memory | None:
    """Read the container's memory cgroup, None if there is none to be read. `root` relocates /proc and /sys."""
    groups = _own_groups(root)
    for folder in _list_candidates(root + V2_MOUNT, groups.get("", "")):
        kills = _read_field(folder + "/memory.events", "oom_kill")
        if kills is not None:
            return Memory(kills, _read_number(folder + "/memory.max"))
    for folder in _list_candidates(root + V1_MOUNT, groups.get("memory", "")):
        kills = _read_field(folder + "/memory.oom_control", "oom_kill")
        if kills is not None:
            return Memory(kills, _read_number(folder + "/memory.limit_in_bytes"))
    return None


def explain_kill(before: Memory | None, now: Memory | None) -> str:
    """Return the cause in words if a process was killed for lack of memory between two readings, else empty."""
    if before is None or now is None or now.kills <= before.kills:
        return ""
    limit = f"the container's limit is {now.limit / (1 << 30):.2f} GiB" if now.limit else "the machine had none left"
    return (
        f"out of memory: the kernel killed {_list_processes(now.kills - before.kills)} ({limit}); "
        "use a smaller batch or fewer data-loading workers, or a larger instance"
    )


def _list_processes(count: int) -> str:
    return "a process" if count == 1 else f"{count} processes"


def _own_groups(root: str) -> dict[str, str]:
    """Read /proc/self/cgroup as controller -> path; v2's own line has the empty controller."""
    groups: dict[str, str] = {}
    for line in _read_text(root + "/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _list_candidates(mount: str, path: str) -> list[str]:
    """Return the cgroup's own folder, then the mount: without a cgroup namespace a container's path is the host's."""
    return [mount + path.rstrip("/"), mount]


def _read_field(path: str, name: str) -> int | None:
    for line in _read_text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return None


def _read_number(path: str) -> int | None:
    text = _read_text(path).strip()
    return int(text) if text.isdigit() and int(text) < NO_LIMIT else None


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
