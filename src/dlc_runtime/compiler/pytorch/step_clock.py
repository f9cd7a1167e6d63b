"""Ends steps by the clock. On a GPU only a step that began and ended with it idle is measured."""

from __future__ import annotations

import time

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlc_runtime.compiler.pytorch.turns import Turns
    from dlc_runtime.compiler.report.step_times import StepTimes


class StepClock:
    """The clock of this process's steps."""

    def __init__(self, steps: StepTimes) -> None:
        self._steps = steps
        # The device, when the step before ended.
        self._was_idle = False

    def tick(self, phase: str, turns: Turns | None, measured: bool) -> float:
        """End a step; return when."""
        idle = not torch.cuda.is_initialized()
        if not idle:
            idle = turns.at_edge() if turns is not None else False
            idle = idle or ((turns is None or turns.decided) and self._steps.wants_device_idle(phase))
            if idle:
                torch.cuda.synchronize()
        now = time.perf_counter()
        self._steps.tick(phase, now, measured and idle and self._was_idle)
        self._was_idle = idle
        return now
