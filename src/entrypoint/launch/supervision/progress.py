"""How far the job is, and when it is done: from the step files of this host's ranks (dlc_runtime/steps).

A line each minute and at the end, and a file in the results. Nothing is guessed: what nobody knows is left out.
Loaded at the first look, 10 s after the start or at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from launch.base.compat import NamedTuple

SUFFIX = ".steps"
HEAD_BYTES = 512
FILE = "progress.json"
VERSION = 1
LINE_SECONDS = 60.0
# A rate is one of the last minutes: an evaluation or a save in them counts
WINDOW_SECONDS = 600.0
# Before so many steps, and so soon after the rate became another one, nobody knows the end
LEAST_STEPS, NEW_RATE_SECONDS = 20, 120.0
OTHER_RATE = 2.0


class Steps(NamedTuple):
    """What a rank says of itself; 0 is unknown, and -1 for `global_step`."""

    rank: int = 0
    steps: int = 0
    # By time.monotonic: the ends of the first and the last step
    began_at: float = 0.0
    stepped_at: float = 0.0
    global_step: int = -1
    total_steps: int = 0
    epoch: int = 0
    epoch_batch: int = 0
    epoch_batches: int = 0

    @property
    def step(self) -> int:
        """Return the step of the whole training, also of earlier jobs if a trainer knows them."""
        return self.global_step if self.global_step >= 0 else self.steps


class Report(NamedTuple):
    """How far it is; None for what nobody knows."""

    step: int
    total_steps: int | None = None
    steps_per_second: float | None = None
    epoch: int | None = None
    # Per cent of the whole training, and of the epoch
    progress: int | None = None
    epoch_progress: int | None = None
    eta_seconds: int | None = None

    def as_line(self) -> str:
        """Return the line that others may read; its words and their order stay (docs/progress.md)."""
        names = ("step", "steps_per_second", "epoch", "epoch_progress", "progress", "eta_seconds")
        known = ((name, getattr(self, name)) for name in names)
        return " ".join(f"{name}={value}" for name, value in known if value is not None)


class Progress:
    """Of one run of the processes on this host."""

    def __init__(self, folder: str, results: str, now: float) -> None:
        """Take the folder of step files, and the one for the report."""
        self._folder, self._results = folder, results
        self._told_at, self._told_steps = now, 0
        # When it was at which step
        self._marks: list[tuple[float, int]] = []
        self._changed_at = -NEW_RATE_SECONDS

    def look(self, now: float, is_last: bool = False) -> str:
        """Read how far it is, write the report; return the line when it is due, else nothing."""
        found = read_first(self._folder)
        if found is None or not found.steps:
            return ""
        # At the end nothing follows the last step: the time after it is no time without steps
        end = found.stepped_at if is_last else now
        self._note(end, found)
        report = self._report(end, found)
        self._write(report)
        is_due = is_last or now - self._told_at >= LINE_SECONDS
        if found.steps == self._told_steps or not is_due:
            return ""
        self._told_at, self._told_steps = now, found.steps
        return report.as_line()

    def _note(self, now: float, found: Steps) -> None:
        if self._marks and found.step < self._marks[-1][1]:  # the script trains another model
            self._marks, self._changed_at = [], now
        elif not self._marks:
            self._marks = [(found.began_at, found.step - found.steps + 1)]
        self._marks = [mark for mark in self._marks if now - WINDOW_SECONDS <= mark[0] < now]
        self._marks.append((now, found.step))
        recent, whole = self._rate_of_work(now - LINE_SECONDS), self._rate_of_work(now - WINDOW_SECONDS)
        if recent and not whole / OTHER_RATE <= recent <= whole * OTHER_RATE:
            self._marks, self._changed_at = self._marks[-2:], now

    def _rate_of_work(self, begin: float) -> float:
        """Return the steps in a second of the times with steps: an evaluation is no other rate."""
        marks = [mark for mark in self._marks if mark[0] >= begin]
        pairs = [(after[0] - before[0], after[1] - before[1]) for before, after in zip(marks, marks[1:])]
        worked = [(seconds, steps) for seconds, steps in pairs if steps]
        return sum(steps for _, steps in worked) / sum(seconds for seconds, _ in worked) if worked else 0.0

    def _rate(self, begin: float) -> float | None:
        """Return the steps in a second since then; None if only one look tells of it."""
        first = next(mark for mark in self._marks if mark[0] >= begin)
        last = self._marks[-1]
        return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else None

    def _report(self, now: float, found: Steps) -> Report:
        recent, whole, total = self._rate(now - LINE_SECONDS), self._rate(now - WINDOW_SECONDS), found.total_steps
        is_steady = found.steps >= LEAST_STEPS and now - self._changed_at >= NEW_RATE_SECONDS
        return Report(
            step=found.step,
            total_steps=total or None,
            steps_per_second=float(f"{recent:.3g}") if recent is not None else None,
            epoch=found.epoch or None,
            epoch_progress=_per_cent(found.epoch_batch, found.epoch_batches),
            progress=_per_cent(found.step, total),
            eta_seconds=round(max(total - found.step, 0) / whole) if total and whole and is_steady else None,
        )

    def _write(self, report: Report) -> None:
        facts = {name: value for name, value in report._asdict().items() if value is not None}
        text = json.dumps({"version": VERSION, "updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **facts})
        path = f"{self._results}/{FILE}"
        # A full disk ends no job
        with contextlib.suppress(OSError):
            os.makedirs(self._results, exist_ok=True)
            with open(f"{path}.part", "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(f"{path}.part", path)


def read_first(folder: str) -> Steps | None:
    """Return what the first rank says: of several processes of it the one that stepped last. None without any."""
    found = [steps for name in _list(folder) if (steps := read_steps(f"{folder}/{name}")) is not None]
    return min(found, key=lambda steps: (steps.rank, -steps.stepped_at), default=None)


def read_steps(path: str) -> Steps | None:
    """Return the fields of one file; None if it is being made, or is none of ours."""
    try:
        with open(path, "rb") as file:
            head, values = json.loads(file.read(HEAD_BYTES)), memoryview(file.read()).cast("d")
        if any(value - value for value in values):  # not a number, or without end
            return None
        told = dict(zip(head["fields"], values))
        known = {name: told[name] for name in Steps._fields if name in told}
        whole = {name: value if name.endswith("_at") else int(value) for name, value in known.items()}
        return Steps(rank=int(head["rank"]), **whole)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _list(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
    except OSError:
        return []


def _per_cent(done: int, whole: int) -> int | None:
    return min(100 * done // whole, 100) if whole > 0 else None
