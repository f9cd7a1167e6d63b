"""Seconds per step: eager, while compiling, and after; and the step from which compiling has paid."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EAGER, WARM_UP, AFTER = "eager", "warm_up", "after"
# Latest steps that the median is made of.
KEPT = 512
# Steps of a phase that are measured one by one on a GPU.
SETTLED = 20
# Later one step of so many is measured: waiting for the GPU costs.
EVERY = 100


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


class StepTimes:
    """Counts and times the steps of each phase."""

    def __init__(self) -> None:
        self.count = 0
        self.first_compiled = 0
        self.phases = {EAGER: Phase(), WARM_UP: Phase(), AFTER: Phase()}
        self._last: float | None = None
        self._timeline = Timeline()

    def wants_device_idle(self, phase: str) -> bool:
        """Tell whether to wait for the GPU, so that this step and the next are measured from idle to idle."""
        done = self.phases[phase].count
        return phase == WARM_UP or done < SETTLED or done % EVERY in (0, 1)

    def tick(self, phase: str, now: float, measured: bool = True) -> None:
        """End a step. `measured`: it ran as its phase does, and began at the last tick."""
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
        """Leave what was done since the last tick out of the next step."""
        if self._last is not None:
            self._last = now

    @property
    def speed_up(self) -> float | None:
        eager, after = self.phases[EAGER].median, self.phases[AFTER].median
        return eager / after if eager and after else None

    @property
    def break_even(self) -> int | None:
        """Return the step at which compiling has paid for itself; None if it never does, or is not known."""
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


MOST = 240  # stretches


class Stretch:
    """Steps in a row of one phase."""

    __slots__ = ("first", "longest", "phase", "seconds", "steps")

    def __init__(self, first: int, phase: str, seconds: float) -> None:
        self.first, self.steps, self.phase = first, 1, phase
        self.seconds = self.longest = seconds

    def take(self, later: Stretch) -> None:
        self.steps += later.steps
        self.seconds += later.seconds
        self.longest = max(self.longest, later.longest)


class Timeline:
    def __init__(self) -> None:
        self._stretches: list[Stretch] = []
        self._width = 1  # steps of a full stretch

    def add(self, step: int, phase: str, seconds: float) -> None:
        new = Stretch(step, phase, seconds)
        last = self._stretches[-1] if self._stretches else None
        if last is not None and last.phase == phase and last.steps < self._width and last.first + last.steps == step:
            last.take(new)
            return
        self._stretches.append(new)
        while len(self._stretches) > MOST:
            self._width *= 2
            self._stretches = join_stretches(self._stretches, self._width)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "step": stretch.first,
                "steps": stretch.steps,
                "phase": stretch.phase,
                "seconds": round(stretch.seconds / stretch.steps, 6),
                "longest": round(stretch.longest, 6),
            }
            for stretch in self._stretches
        ]


def join_stretches(stretches: list[Stretch], width: int) -> list[Stretch]:
    """Join neighbours of one phase up to `width` steps; of any phase if that is not enough."""
    for same_phase in (True, False):
        result: list[Stretch] = []
        for stretch in stretches:
            last = result[-1] if result else None
            fits = last is not None and last.steps + stretch.steps <= width
            if last is not None and fits and (last.phase == stretch.phase or not same_phase):
                last.take(stretch)
            else:
                result.append(stretch)
        if len(result) <= MOST:
            break
        stretches = result
    return result
