"""Gives everything that this step wrote one time, so that two builds give the same bytes. Standard library only.

What has a time from before the step came with it, from a package or an archive, and keeps it. So does what lies in a
lower layer, where a new time would store the file again.
"""

import os
from pathlib import Path

EPOCH = 315532800  # 1980, the first year that zip files know
SLACK = 2  # seconds: the system's start is known to one


def started():
    """When the step's first process started, in seconds since 1970."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    ticks = int(Path("/proc/1/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return boot + ticks / os.sysconf("SC_CLK_TCK") - SLACK


def mounts():
    """Paths that are no part of the layer: everything mounted but the root."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {line.split()[4] for line in lines} - {"/"}


def clamp(root, since, skipped):
    """Set the time of each file, link and folder below `root` that is newer than `since`; returns their number."""
    if root in skipped:
        return 0
    count = 0
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                count += clamp(entry.path, since, skipped)
            elif entry.path not in skipped:
                count += set_time(entry.path, since)
    return count + set_time(root, since)


def set_time(path, since):
    """1 if the path was newer than `since`, and is no longer; else 0."""
    if os.lstat(path).st_mtime < since:
        return 0
    os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    return 1


if __name__ == "__main__":
    print("clamped", clamp("/", started(), mounts()), "times")
