"""Looks for the largest batch of a job, in each mode, by trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlc.core.errors import TuneError
from dlc.engine.connection import Engine
from dlc.jobs.run import claims
from dlc.jobs.run.limits import require_limits
from dlc.jobs.run.run import require_image
from dlc.jobs.tune.request import Mode, Request, trial_job
from dlc.jobs.tune.trial import LOG, run_trial
from dlc.jobs.tune.verdict import DATA, FAILED, MEMORY, TIGHT, TIME, Ended, Trial, judge
from dlc_runtime.scaling.batch_search import largest_that_fits

Start = Callable[[Mode, int], Ended]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """What the trials of one mode showed. `batch` is the largest that fits and leaves the margin; `limit` says why."""

    mode: str
    batch: int
    limit: str  # an outcome, or "" where the largest batch that was allowed fits
    trials: tuple[Trial, ...]


def tune(request: Request, engine: Engine, claims_folder: Path, say: Say) -> tuple[Found, ...]:
    """The largest batch of each mode. Raises TuneError where not one sample fits, or nothing can be measured."""
    require_limits(request.job, engine)
    claims.remove_leftovers(claims_folder, engine)
    require_image(request.job, engine)

    def start(mode: Mode, batch: int) -> Ended:
        return run_trial(trial_job(request, mode, batch), engine, claims_folder, request.seconds)

    return tuple(Search(request, mode, start, say).run() for mode in request.modes)


class Search:
    """The trials of one mode."""

    def __init__(self, request: Request, mode: Mode, start: Start, say: Say) -> None:
        self._request, self._mode, self._start, self._say = request, mode, start, say
        self._trials: list[Trial] = []
        self._sample_bytes = 0.0

    def run(self) -> Found:
        """Raises TuneError where the job's own batch fails for a reason that no smaller batch cures."""
        batch = largest_that_fits(self._request.batch, self._request.most, self._fits)
        if not batch:
            self._raise(f"{self._mode.name}: not even a batch of 1 fits", self._trials[-1])
        above = [trial for trial in self._trials if trial.batch > batch]
        limit = min(above, key=lambda trial: trial.batch).outcome if above else ""
        return Found(self._mode.name, batch, limit, tuple(sorted(self._trials, key=lambda trial: trial.batch)))

    def _fits(self, batch: int) -> bool:
        ended = self._start(self._mode, batch)
        trial = judge(self._mode.name, batch, ended, self._request.margin, self._sample_bytes)
        self._trials.append(trial)
        self._say(line(trial))
        if trial.outcome == FAILED or (trial.outcome in (DATA, TIME) and batch <= self._request.batch):
            self._raise(f"{self._mode.name}, batch {batch}: {_about(trial)}", trial)
        if trial.fits and not self._sample_bytes:
            reports = [report for reports in ended.reports.values() for report in reports]
            self._sample_bytes = max(report["batch_bytes"] for report in reports) / batch
        return trial.fits

    def _raise(self, what: str, trial: Trial) -> None:
        log = trial_job(self._request, self._mode, trial.batch).folder / LOG
        remedy = {
            DATA: f"the job needs {self._request.steps + self._mode.skip} steps or more, over a DataLoader or a"
            " tf.data.Dataset: more epochs, or fewer --steps",
            TIME: "more --trial-seconds",
            MEMORY: "more --memory, a smaller model, or shorter inputs",
            TIGHT: "more --memory, or a smaller --margin",
        }.get(trial.outcome, "the job has to run with dlc run")
        raise TuneError(f"{what}; its log: {log}", remedy)


def _about(trial: Trial) -> str:
    return trial.reason or trial.outcome


def line(trial: Trial) -> str:
    """A trial in one line."""
    if trial.peak is None or trial.step_seconds is None:
        return f"{trial.mode}, batch {trial.batch}: does not fit ({trial.outcome}): {trial.reason}"
    of = f" of {gigabytes(trial.limit)}" if trial.limit else ""
    fits = "fits" if trial.fits else "too large"
    size = f"{gigabytes(trial.peak)}{of}"
    return f"{trial.mode}, batch {trial.batch}: {fits}, {size}, {1000 * trial.step_seconds:.0f} ms a step"


def gigabytes(size: int) -> str:
    """With two decimals: 1.25 GB."""
    return f"{size / 1e9:.2f} GB"
