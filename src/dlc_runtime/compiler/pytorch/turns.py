"""Lets ways take turns: measures a block of steps, agrees on it with the other ranks, and switches the way."""

from __future__ import annotations

import time
from statistics import median

import torch

from dlc_runtime.compiler.choosing.candidates import EAGER, WINDOW_STEPS, Result
from dlc_runtime.compiler.choosing.choosing import Choosing
from dlc_runtime.compiler.pytorch import torch_facts
from dlc_runtime.compiler.pytorch.agreement import LOST, Agreement
from dlc_runtime.compiler.pytorch.dispatch import LOST_STEP, Dispatch
from dlc_runtime.compiler.pytorch.ways import WAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dlc_runtime.compiler.choosing.decisions import Decisions
    from dlc_runtime.compiler.pytorch.beside import Beside
    from dlc_runtime.compiler.report.step_times import StepTimes

# Share of the GPU's memory: a way that needs more would break the job at the next longer batch.
MOST_MEMORY = 0.9


class Turns:
    """The measured steps of this process. `began`: the job's start by time.perf_counter."""

    def __init__(self, choosing: Choosing, agreement: Agreement, began: float, beside: Beside) -> None:
        self.choosing, self._agreement, self._began, self._beside = choosing, agreement, began, beside
        self.lost = False
        self.begin_block()

    def begin_block(self) -> None:
        """Begin a block now: what was done since the last step is no part of its first."""
        self._last, self._comparing = time.perf_counter(), Dispatch.comparing_seconds
        self._seconds: list[float] = []
        self._compiling = 0.0
        Dispatch.memory = Dispatch.shapes = 0
        if torch.cuda.is_initialized():
            torch_facts.peaks.begin()
        Dispatch.way = WAYS[EAGER if self.lost else self.choosing.block.way]

    @property
    def decided(self) -> bool:
        return self.lost or self.choosing.decided_at > 0

    def at_edge(self) -> bool:
        """Tell whether the step that ends is the last measured step, or the step before the first."""
        block = self.choosing.block
        return len(self._seconds) + 1 in (block.skipped, block.skipped + block.steps)

    def resume(self, now: float) -> None:
        """Leave what was done since the last step out of the next."""
        self._last = now

    def step_ended(self, now: float, compiling: float, step: int) -> bool:
        """Return whether the next step may run another way. `compiling`: seconds of it in this step."""
        comparing = Dispatch.comparing_seconds - self._comparing
        self._seconds.append(max(now - self._last - comparing, 0.0))
        self._last, self._comparing = now, Dispatch.comparing_seconds
        self._compiling += compiling
        self._beside.poll(step)
        block = self.choosing.block
        if self.lost or len(self._seconds) < block.skipped + block.steps:
            return False
        agreed = self._agreement.agree(self._result(step))
        if agreed is None:
            self._lose(step)
        else:
            self.choosing.end_block(agreed)
            self._prepare(step)
            for way, text in Dispatch.compared.items():
                if way in self.choosing.candidates:
                    self.choosing.candidates[way].compared = text
        Dispatch.failed = ""
        self._release()
        self.begin_block()
        return True

    def _prepare(self, step: int) -> None:
        """Compile what is tried next beside the training; nothing while something is compiled in it, or measured."""
        if self.choosing.trying:
            self._beside.stop()
        elif self.choosing.may_prepare:
            self._beside.begin(self.choosing.next_way, step)

    def _result(self, step: int) -> Result:
        block, on_gpu = self.choosing.block, torch.cuda.is_initialized()
        measured = self._seconds[block.skipped :] or [0.0]  # a job can end before
        # The GPU is idle at the edges only; on a CPU each step is known, and a median forgets an evaluation among them.
        seconds = sum(measured) / len(measured) if on_gpu else median(measured)
        return Result(
            seconds=seconds,
            took=sum(self._seconds),
            compiling=self._compiling,
            failed=Dispatch.failed or (self._reason_too_large() if on_gpu and block.way != EAGER else ""),
            elapsed=self._last - self._began,
            step=step,
            memory=torch_facts.peaks.bytes() if on_gpu else 0,
            shapes=Dispatch.shapes,
            expected=self._beside.expected(
                self.choosing.next_way, max(each.compile_seconds for each in self.choosing.candidates.values())
            ),
        )

    def _reason_too_large(self) -> str:
        """Return why the way takes too much memory, "" if it does not.

        Only a measured block's peak counts: others may hold an evaluation, or the comparison with eager. Of these it is
        what is held after a forward.
        """
        is_measured = self.choosing.block.steps < WINDOW_STEPS and not self._compiling
        memory = torch_facts.peaks.bytes() if is_measured else Dispatch.memory
        return reason_too_large(memory, self.choosing.candidates[EAGER].memory)

    def end(self, step: int, decisions: Decisions, folder: str) -> None:
        """End the job; if its last step was lost, the next job knows it."""
        way, reason = self.choosing.block.way, Dispatch.failed
        if LOST_STEP in reason and not self.lost:
            self.choosing.end_block(self._result(step))
            decisions.keep(self.choosing, folder, f"{way} was given up: {reason}")

    def _lose(self, step: int) -> None:
        self.lost = True
        self._beside.stop()
        choosing = self.choosing
        choosing.way, choosing.decided_at, choosing.reason = EAGER, step, LOST
        choosing.news.append(choosing.words())

    def _release(self) -> None:
        """Let go of ways that are not run any more: compiled code and graphs hold memory."""
        used = {self.choosing.way, self.choosing.trying} if not self.lost else set()
        for dispatch in list(Dispatch.every):
            for way in WAYS:
                if way not in used:
                    dispatch.release(way)


class StepClock:
    """Ends steps by the clock. On a GPU only a step that began and ended with it idle is measured."""

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


def reason_too_large(memory: int, eager: int) -> str:
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    if memory <= max(MOST_MEMORY * total, eager):
        return ""
    return f"it needs {memory / 2**30:.1f} of {total / 2**30:.1f} GiB of the GPU's memory"
