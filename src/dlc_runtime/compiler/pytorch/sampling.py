"""Compares a way that was taken with eager again, in steps at random, within a small share of the job's time."""

from __future__ import annotations

import random
import time

from dlc_runtime.compiler.choosing.candidates import EAGER, WINDOW_STEPS, Result
from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.pytorch.dispatch import Dispatch
from dlc_runtime.compiler.pytorch.ways import WAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlc_runtime.compiler.pytorch.agreement import Agreement
    from dlc_runtime.compiler.report.record import Record

# Of the job's time, for samples.
SHARE = 0.002
# A job is taken to run for so long: what the share allows by then may be spent in its first steps.
EXPECTED_SECONDS = 600.0
# A comparison takes as long as so many steps, until one was measured.
STEPS_OF_COMPARISON = 4.0
FAR = 1 << 30


class Samples:
    """The steps in which a way is compared again: at about doubled distances, at random, within SHARE of the time.

    All ranks that ask with the same numbers get the same steps.
    """

    def __init__(self) -> None:
        self.spent = 0.0
        # The step after which it is looked whether there is time for a sample; 0 before the first.
        self.look_at = 0
        self._cost = 0.0
        self._first = (0, 0.0)

    def plan(self, step: int, cost: float, elapsed: float) -> bool:
        """Return whether the next step is a sample. `cost`: seconds of comparing in the step that ended."""
        if not self.look_at:  # how long a step takes is not known yet
            self._first, self.look_at = (step, elapsed), step + 1
            return False
        self.spent += cost
        self._cost = cost or self._cost
        per_step = self._seconds_of_step(step, elapsed)
        short = (self.spent + (self._cost or STEPS_OF_COMPARISON * per_step)) / SHARE - max(elapsed, EXPECTED_SECONDS)
        if cost == 0.0 and short <= 0:
            self.look_at = step + 1
            return True
        since = step - self._first[0]
        # Numbers of its own: the script's stay as they are.
        apart = random.Random(step).randint(1, max(1, since))  # noqa: S311
        self.look_at = step + max(apart, min(int(short / per_step), FAR) if short > 0 and per_step > 0 else 1)
        return False

    def _seconds_of_step(self, step: int, elapsed: float) -> float:
        first_step, first = self._first
        if step > first_step:
            return (elapsed - first) / (step - first_step)
        return elapsed / max(step, 1)


class Sampling:
    """The samples of this process. `began`: the job's start by time.perf_counter."""

    def __init__(self, agreement: Agreement, record: Record, began: float) -> None:
        self._agreement, self._record, self._began = agreement, record, began
        self._samples = Samples()
        # Seconds of comparing, when the step before ended.
        self._compared = 0.0
        # The ranks cannot agree any more.
        self.is_over = False
        # Why the way was left, as it was told.
        self._told = ""

    def tell_failure(self, step: int) -> None:
        """Tell once why all modules run eager. The reason stays: the other ranks are still to hear of it."""
        told, self._told = self._told, Dispatch.failed
        if self._told not in ("", told) and not Dispatch.found_late:  # which says it, with the steps since
            log(self._record.warn(f"from step {step} on all modules run eager: {self._told}"))

    def step_ended(self, step: int, is_on: bool) -> None:
        """Let the next step be a sample if it is time; tell what the last comparison has found.

        `is_on`: the steps run a way that was taken; all ranks know the same.
        """
        cost = Dispatch.comparing_seconds - self._compared
        self._compared = Dispatch.comparing_seconds
        if Dispatch.found_late:
            log(self._record.warn(f"eager from step {step} on: {Dispatch.found_late}"))
            Dispatch.found_late = ""
        sampled, Dispatch.sampling = Dispatch.sampling, False
        if not is_on or self.is_over or step < self._samples.look_at:
            return
        elapsed = time.perf_counter() - self._began
        agreed = self._agreement.agree(Result(None, cost if sampled else 0.0, 0.0, Dispatch.failed, elapsed, step))
        if agreed is None:
            self.is_over = True
        elif agreed.failed:
            # Another way may be taken; until then nothing is to be compared.
            self._samples.look_at = step + WINDOW_STEPS
            Dispatch.failed, Dispatch.way = Dispatch.failed or agreed.failed, WAYS[EAGER]
        else:
            Dispatch.sampling = self._samples.plan(step, agreed.took, agreed.elapsed)
