"""Turns a failed build into an error: the last lines of the failing step decide its class, and so the exit code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dlc.build.progress import Progress
from dlc.core.errors import BaseImageError, BuildError, DiskError, DlcError, LockError, PackageIndexError

ENGINE_FULL = "free space where the engine keeps its data: docker system df, docker builder prune"  # a remedy
BASE_LOOKUP = "load metadata for "
# What BuildKit and its client say when the host is too busy for their bounds of seconds. A command that failed is
# shown with its own words, which may be any.
BUSY = (
    r"(?:failed to solve: (?!process )|failed to receive status|listing workers|no active session).*"
    r"(?:[Dd]eadline ?[Ee]xceeded|error reading from server|transport is closing|client connection is (?:closing|lost))"
)


@dataclass(frozen=True)
class Cause:
    """A pattern in the step's last lines (from the kernel, docker/scripts, uv, pip or apt) and its meaning."""

    pattern: str
    error: type[DlcError]
    meaning: str
    remedy: str


# The first that matches counts.
CAUSES = (
    Cause(
        r"[Nn]o space left on device|ENOSPC",
        DiskError,
        "the disk is full",
        ENGINE_FULL,
    ),
    Cause(
        r"apt-get: not found|/bin/sh.*no such file or directory",
        BaseImageError,
        "base.image: expected Debian or Ubuntu, found an image without apt-get",
        "set base.image to one of them, or leave it out",
    ),
    Cause(
        r"the base image's Python is",
        BaseImageError,
        "base.image: expected one with the image's Python",
        "choose another base.image or another python",
    ),
    Cause(
        r"Hash mismatch for|DO NOT MATCH THE HASHES",
        LockError,
        "expected the file with the lock's hash, found another",
        "find out who changed it: the index, or the lock; dlc lock GLOB takes what the index has now",
    ),
    Cause(
        r"[Ee]rror sending request|Request failed after|Could not connect to|Could not resolve|Temporary failure"
        r"|Connection (?:refused|timed out)|tcp connect error|dns error|HTTP status server error|429 +Too Many Requests"
        r"|Failed to fetch \S+ +5\d\d ",
        PackageIndexError,
        "a package index or mirror does not answer",
        "check that it is reachable, then run the same command again: finished steps and downloads are kept",
    ),
    Cause(
        r"No solution found|not found in the package registry|No matching distribution found|404 Not Found",
        LockError,
        "expected a file of the lock, found it in no index",
        "dlc lock GLOB, or name an index or a folder that has it: UV_DEFAULT_INDEX, UV_FIND_LINKS",
    ),
    Cause(
        BUSY,
        BuildError,
        "the host is too busy, and the engine missed a time limit of its own",
        "end other work on this host, then run the same command again: finished steps are cached",
    ),
)


def failure(progress: Progress, log: Path) -> DlcError:
    """The error for a failed build."""
    step, command, lines = progress.failure()
    cause = next((cause for cause in CAUSES if re.search(cause.pattern, f"{lines}\n{progress.last}")), None)
    if command.startswith(BASE_LOOKUP) and not (cause and cause.error is DiskError):
        base = command.removeprefix(BASE_LOOKUP)
        return BaseImageError(
            f"base image {base}: {lines}\n  log: {log}", "check base.image: docker pull shows whether it exists"
        )
    if cause:
        return cause.error(f"{step} failed: {cause.meaning}\n{lines}\n  log: {log}", cause.remedy)
    return BuildError(
        f"{step} failed:\n{lines}\n  log: {log}", "correct the step and run again: finished steps are cached"
    )
