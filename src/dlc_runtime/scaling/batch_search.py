"""The largest batch for which a function fits into memory: a search in few trials, a child process for each."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from dlc_runtime.profile.resources import container_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

STEPS = 5
# Characters of a trial's output that an error shows.
LAST = 2000
KILLED = -9


class TrialError(RuntimeError):
    """A trial failed for a reason that is not memory."""


class LargestBatch:
    """The result: `batch` is 0 if not one sample fits; `trials` has bytes and seconds for each batch tried."""

    def __init__(self, batch: int, trials: dict[int, dict[str, Any]]) -> None:
        self.batch, self.trials = batch, trials

    def __repr__(self) -> str:
        return f"LargestBatch(batch={self.batch}, trials={self.trials})"


def largest_batch(
    function: str,
    *,
    first: int = 1,
    most: int = 1 << 20,
    steps: int = STEPS,
    margin: float = 0.1,
    memory: int | None = None,
    seconds: float = 600.0,
    environment: Mapping[str, str] | None = None,
) -> LargestBatch:
    """Search the largest batch that fits. `function` is "module:function", takes a batch size and trains one step.

    `memory` are the bytes that it may take of the host; without it the container's limit counts, or the GPU's memory.
    `margin` is the share that stays free. `seconds` bounds one trial: what takes longer does not fit. `environment`
    adds variables: with {"DLC_COMPILER": "inductor"} the same is found for the compiled function.
    Raises TrialError if a trial fails for another reason than memory.
    """
    if not 0 <= margin < 1:
        raise ValueError(f"margin: expected a share from 0 to below 1, found {margin!r}")
    trials: dict[int, dict[str, Any]] = {}

    def fits(batch: int) -> bool:
        trials[batch] = _trial(function, batch, steps, memory, seconds, environment or {})
        trials[batch]["fits"] = trials[batch]["fits"] and _leaves(trials[batch], margin, memory)
        return bool(trials[batch]["fits"])

    return LargestBatch(largest_that_fits(first, most, fits), trials)


def _leaves(trial: dict[str, Any], margin: float, memory: int | None) -> bool:
    """Tell whether enough stays free of what has a limit."""
    limits = {"host": memory or container_limit(), "device": (trial["device"] or {}).get("limit")}
    return all(trial[place]["peak"] <= (1 - margin) * limit for place, limit in limits.items() if limit)


def _trial(
    function: str, batch: int, steps: int, memory: int | None, seconds: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="dlc-batch-") as folder:
        report, log = os.path.join(folder, "report.json"), os.path.join(folder, "log")
        words = [function, str(batch), str(steps), str(memory or 0), report]
        command = [sys.executable, "-m", "dlc_runtime.scaling.trial_process", *words]
        environ = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        code = _run(command, environ, log, seconds)
        if code is None:
            return {"fits": False, "why": f"not done within {seconds:g} s"}
        if code == 0:
            with open(report) as file:
                return {"fits": True, **json.load(file)}
        with open(log, errors="replace") as file:
            said = file.read()
    if code == KILLED or says_memory(said):
        return {"fits": False, "why": says_memory(said) or "killed"}
    raise TrialError(f"{function}, batch {batch}: exit code {code}: {said.strip()[-LAST:]}")


def _run(command: list[str], environ: dict[str, str], log: str, seconds: float) -> int | None:
    """Return the exit code; None if the time was over. All that it started ends: the next trial needs the memory."""
    # A pipe would stay open as long as what it started has it.
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# A gap of a sixteenth of the batch that fits is not looked into: it is less than the margin.
FINE = 16


def largest_that_fits(first: int, most: int, fits: Callable[[int], bool], fine: int = FINE) -> int:
    """Return the largest batch from 1 to `most` that `fits`; 0 if not even 1 does.

    It begins with `first`, asks for no batch twice, and takes it that a batch above one that does not fit does not
    fit either. With `fine` of 0 the answer is exact; else up to a `fine`th of it may have been left.
    """
    if not 1 <= first <= most:
        raise ValueError(f"first: expected a batch from 1 to {most}, found {first}")
    good, bad, batch = 0, most + 1, first
    while bad - good > max(good // fine if fine else 1, 1):
        if fits(batch):
            good = batch
        else:
            bad = batch
        batch = _next(good, bad, most)
    return good


def _next(good: int, bad: int, most: int) -> int:
    # Nothing was too large so far.
    if bad > most:
        return min(2 * good, most)
    return (good + bad) // 2 if good else max(bad // 2, 1)


# What the frameworks, the C++ runtime and the kernel say.
SAYS_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|\bOOM\b|can't allocate memory|not enough memory|Cannot allocate memory"
    r"|MemoryError|std::bad_alloc|RESOURCE_EXHAUSTED|ResourceExhaustedError|ALLOC_FAILED|Unable to allocate"
)


def says_memory(text: str) -> str:
    """Return the words of an error that says so, or ""."""
    found = SAYS_MEMORY.search(text)
    return found[0] if found else ""
