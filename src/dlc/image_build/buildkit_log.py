"""Reads BuildKit's plain progress: the steps that run, have ended or failed, and the error that a failed build is."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from dlc.core.errors import (
    BaseImageError,
    BuildError,
    DiskError,
    DlcError,
    EngineError,
    LockError,
    PackageIndexError,
    RegistryError,
)

STEP = re.compile(r"^#(\d+) \[(.+?)\] (.*)")
DONE = re.compile(r"^#(\d+) DONE ([\d.]+)s")
CACHED = re.compile(r"^#(\d+) CACHED")
CANCELED = re.compile(r"^#(\d+) CANCELED")
FAILED = re.compile(r"^#(\d+) ERROR: (.*)")
# A cache that is not there yet is no failure: its steps run.
IMPORTING = re.compile(r"^#(\d+) importing cache manifest from ")
OUTPUT = re.compile(r"^#(\d+) ([\d.]+) (.*)")
# The error of the whole build begins so.
REASON = "ERROR: "
KEEP_LINES = 30
# Words in the names of steps that every build has to itself: they read the files of this build.
OWN = {"internal", "context"}
# By so much a step may seem to have run longer than this build: BuildKit and this host round, and lines take time.
SLACK_SECONDS = 0.5
ELSEWHERE = "another build runs"
# The remedy for a full disk.
ENGINE_FULL = "free space where the engine keeps its data: docker system df, docker builder prune"
BASE_LOOKUP = "load metadata for "
# What BuildKit and its client say when the host is too busy for their bounds of seconds. A command that failed is
# shown with its own words, which may be any.
BUSY = (
    r"(?:failed to solve: (?!process )|failed to receive status|listing workers|no active session).*"
    r"(?:[Dd]eadline ?[Ee]xceeded|error reading from server|transport is closing|client connection is (?:closing|lost)"
    r"|only one connection allowed)|(?:^|\n)ERROR: DeadlineExceeded: context deadline exceeded"
)


@dataclass(frozen=True)
class Step:
    """One finished step. `name` is BuildKit's, as in `pytorch framework 1/1`; seconds are 0 if it was cached."""

    name: str
    command: str
    seconds: float
    cached: bool
    # Whether another build of the engine had begun it before this build came to it. BuildKit runs it for both.
    elsewhere: bool = False


@dataclass(frozen=True)
class Running:
    """One step that has not ended. `started` is its time on the monotonic clock, in seconds."""

    name: str
    command: str
    started: float


@dataclass
class Progress:
    """What has been read so far."""

    steps: list[Step] = field(default_factory=list)
    running: dict[str, Running] = field(default_factory=dict)
    failed: str = ""
    # When the first step was read that may be another build's too; infinite before.
    _begun: float = math.inf
    _names: dict[str, tuple[str, str]] = field(default_factory=dict)
    _imports: set[str] = field(default_factory=set)
    _output: dict[str, deque[str]] = field(default_factory=dict)
    _errors: dict[str, str] = field(default_factory=dict)
    _last: deque[str] = field(default_factory=lambda: deque(maxlen=KEEP_LINES))

    def feed(self, line: str, now: float | None = None) -> Step | None:
        """Take one line, read at `now` on the monotonic clock; returns the step that it ends, if any."""
        now = time.monotonic() if now is None else now
        self._last.append(line)
        if match := STEP.match(line):
            # BuildKit prints the heading again each time that it returns to a step.
            self._names[match[1]] = (match[2], match[3])
            if OWN.isdisjoint(match[2].split()):
                self._begun = min(self._begun, now)
            self.running.setdefault(match[1], Running(match[2], match[3], now))
        elif match := IMPORTING.match(line):
            self._imports.add(match[1])
        elif (match := FAILED.match(line)) and match[1] not in self._imports:
            self.running.pop(match[1], None)
            self.failed = self.failed or match[1]
            self._errors.setdefault(match[1], match[2])
        elif match := OUTPUT.match(line):
            self._printed(match[1], float(match[2]), match[3], now)
        elif match := DONE.match(line):
            return self._end(match[1], float(match[2]), now, cached=False)
        elif match := CACHED.match(line):
            return self._end(match[1], 0.0, now, cached=True)
        elif match := CANCELED.match(line):
            self.running.pop(match[1], None)
        return None

    def failure(self) -> tuple[str, str, str]:
        """Return the failed step's name, its command, and its last lines.

        BuildKit's error stands for the lines of a step that printed none.
        """
        name, command = self._names.get(self.failed, ("the build", ""))
        printed = "\n".join(self._output.get(self.failed, ()))
        return name, command, printed or self._errors.get(self.failed) or "\n".join(self._last)

    @property
    def last(self) -> str:
        """Return the last line: of a failed build, its last error, which hints may follow."""
        errors = (line for line in reversed(self._last) if line.startswith(REASON))
        return next(errors, self._last[-1] if self._last else "")

    def _printed(self, number: str, seconds: float, text: str, now: float) -> None:
        """Keep what a step printed `seconds` after its start, which may be long before its heading was written."""
        self._output.setdefault(number, deque(maxlen=KEEP_LINES)).append(text)
        step = self.running.get(number)
        if step and now - seconds < step.started:
            command = f"{ELSEWHERE}: {self._names[number][1]}" if self._is_elsewhere(seconds, now) else step.command
            self.running[number] = Running(step.name, command, max(now - seconds, self._begun))

    def _is_elsewhere(self, seconds: float, now: float) -> bool:
        """Tell whether a step that has run so long began before this build could begin it.

        BuildKit prints what it did for another build as if it was done for this one.
        """
        return seconds > now - min(self._begun, now) + SLACK_SECONDS

    def _end(self, number: str, seconds: float, now: float, *, cached: bool) -> Step | None:
        self.running.pop(number, None)
        if number not in self._names:
            return None
        name, command = self._names[number]
        step = Step(name, command, seconds, cached, self._is_elsewhere(seconds, now))
        self.steps.append(step)
        return step


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
        r"unexpected commit digest|failed size validation|invalid checksum digest",
        RegistryError,
        "a cache or a registry gave other bytes than their digest says",
        "leave out --cache-from once, so that --cache-to writes the cache anew",
    ),
    Cause(
        r"ERROR: .*(?:[Cc]ache export is not supported|not currently implemented for docker driver)",
        EngineError,
        "this builder cannot do that",
        "name a builder of another driver: docker buildx create --name NAME --driver docker-container",
    ),
    Cause(
        # Not a program in a step that says it: only the client speaks of these.
        r"ERROR: .*(?:[Ee]rror while dialing|Cannot connect to the Docker daemon|list workers: Unavailable)"
        # All that buildx says of an address at which nobody answers for 20 s, and of a builder that ends each time.
        r"|ERROR: context deadline exceeded$|ERROR: failed to receive status: .*error reading from server: EOF",
        EngineError,
        "the builder or engine has gone away",
        "see whether it runs (docker buildx inspect NAME), then run the same command again: no tag was moved",
    ),
    Cause(
        # Not a command whose words are the same.
        r"failed to solve: (?!process ).*"
        r"(?:failed to do request|failed to authorize|push access denied|unexpected status (?:code )?from)",
        RegistryError,
        "a registry does not answer, or refuses: one that --push, --cache-to or --cache-from names",
        "see whether it answers and lets you in (docker login), then run the same command again: no tag was moved",
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


def error_of(progress: Progress, log: Path) -> DlcError:
    """Return the error for a failed build."""
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
