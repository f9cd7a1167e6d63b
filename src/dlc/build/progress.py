"""Reads BuildKit's plain progress line by line: the steps that run, have ended or failed, with their times."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field

STEP = re.compile(r"^#(\d+) \[(.+?)\] (.*)")
DONE = re.compile(r"^#(\d+) DONE ([\d.]+)s")
CACHED = re.compile(r"^#(\d+) CACHED")
CANCELED = re.compile(r"^#(\d+) CANCELED")
FAILED = re.compile(r"^#(\d+) ERROR: (.*)")
OUTPUT = re.compile(r"^#(\d+) ([\d.]+) (.*)")
REASON = "ERROR: "  # of the whole build
KEEP_LINES = 30


@dataclass(frozen=True)
class Step:
    """One finished step. `name` is BuildKit's, as in `pytorch framework 1/1`; seconds are 0 where it was cached."""

    name: str
    command: str
    seconds: float
    cached: bool


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
    _names: dict[str, tuple[str, str]] = field(default_factory=dict)
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
            self.running.setdefault(match[1], Running(match[2], match[3], now))
        elif match := FAILED.match(line):
            self.running.pop(match[1], None)
            self.failed = self.failed or match[1]
            self._errors.setdefault(match[1], match[2])
        elif match := OUTPUT.match(line):
            self._printed(match[1], float(match[2]), match[3], now)
        elif match := DONE.match(line):
            return self._end(match[1], float(match[2]), cached=False)
        elif match := CACHED.match(line):
            return self._end(match[1], 0.0, cached=True)
        elif match := CANCELED.match(line):
            self.running.pop(match[1], None)
        return None

    def failure(self) -> tuple[str, str, str]:
        """The failed step's name, its command, and its last lines, or BuildKit's error where it printed none."""
        name, command = self._names.get(self.failed, ("the build", ""))
        printed = "\n".join(self._output.get(self.failed, ()))
        return name, command, printed or self._errors.get(self.failed) or "\n".join(self._last)

    @property
    def last(self) -> str:
        """The last line: of a failed build, its last error, which hints may follow."""
        errors = (line for line in reversed(self._last) if line.startswith(REASON))
        return next(errors, self._last[-1] if self._last else "")

    def _printed(self, number: str, seconds: float, text: str, now: float) -> None:
        """Keep what a step printed `seconds` after its start, which may be long before its heading was written."""
        self._output.setdefault(number, deque(maxlen=KEEP_LINES)).append(text)
        step = self.running.get(number)
        if step and now - seconds < step.started:
            self.running[number] = Running(step.name, step.command, now - seconds)

    def _end(self, number: str, seconds: float, *, cached: bool) -> Step | None:
        self.running.pop(number, None)
        if number not in self._names:
            return None
        name, command = self._names[number]
        step = Step(name, command, seconds, cached)
        self.steps.append(step)
        return step
