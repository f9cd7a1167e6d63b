"""Seconds of every step so far in a bounded number of stretches: the longer the run, the more steps one has."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
            self._stretches = joined(self._stretches, self._width)

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


def joined(stretches: list[Stretch], width: int) -> list[Stretch]:
    """Neighbours of one phase in stretches of up to `width` steps; of any phase where that is not enough."""
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
