"""Seconds per step: eager, while compiling, and after; and the step from which compiling has paid."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from dlc_runtime.compiler.report.timeline import Timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EAGER, WARM_UP, AFTER = "eager", "warm_up", "after"
KEPT = 512  # of the latest steps, for the median
SETTLED = 20  # steps of a phase that are measured one by one on a GPU
EVERY = 100  # and then one of so many: waiting for the GPU costs


class Phase:
    def __init__(self) -> None:
        self.count = 0
        self.measured = 0
        self.total = 0.0
        self.latest: deque[float] = deque(maxlen=KEPT)

    def add(self, seconds: float) -> None:
        self.measured += 1
        self.total += seconds
        self.latest.append(seconds)

    @property
    def median(self) -> float | None:
        return median(self.latest) if self.latest else None


class Steps:
    def __init__(self) -> None:
        self.count = 0
        self.first_compiled = 0
        self.phases = {EAGER: Phase(), WARM_UP: Phase(), AFTER: Phase()}
        self._last: float | None = None
        self._timeline = Timeline()

    def wants_device_idle(self, phase: str) -> bool:
        """Whether to wait for the GPU, so that this step and the next are measured from idle to idle."""
        done = self.phases[phase].count
        return phase == WARM_UP or done < SETTLED or done % EVERY in (0, 1)

    def tick(self, phase: str, now: float, measured: bool = True) -> None:
        """A step has ended. `measured`: this one ran as its phase does, and began where the last tick was."""
        self.count += 1
        held = self.phases[phase]
        held.count += 1
        if phase != EAGER and not self.first_compiled:
            self.first_compiled = self.count
        if self._last is not None and measured:
            held.add(now - self._last)
            self._timeline.add(self.count, phase, now - self._last)
        self._last = now

    def resume(self, now: float) -> None:
        """What was done since the last tick is no part of the next step."""
        if self._last is not None:
            self._last = now

    @property
    def speed_up(self) -> float | None:
        eager, after = self.phases[EAGER].median, self.phases[AFTER].median
        return eager / after if eager and after else None

    @property
    def break_even(self) -> int | None:
        """The step at which compiling has cost nothing any more; None where it never does, or is not known."""
        eager, after, warm_up = self.phases[EAGER].median, self.phases[AFTER].median, self.phases[WARM_UP]
        if eager is None or after is None or eager <= after:
            return None
        extra = max(0.0, warm_up.total - warm_up.measured * eager)
        return self.first_compiled + warm_up.count - 1 + math.ceil(extra / (eager - after))

    def as_json(self) -> dict[str, Any]:
        phases = {
            name: {"steps": phase.count, "median_seconds": phase.median, "seconds": round(phase.total, 6)}
            for name, phase in self.phases.items()
        }
        return {
            "count": self.count,
            **phases,
            "first_compiled_step": self.first_compiled or None,
            "speed_up": self.speed_up,
            "break_even_step": self.break_even,
            "timeline": self._timeline.as_json(),
        }
