"""Looks for the largest batch of a job, in each mode, by trials with a bound in time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Timer

from dlc.core.errors import DlcError, TuneError
from dlc.core.text import format_bytes
from dlc.engine.docker_client import Engine
from dlc.job.host_log import HostLog
from dlc.places.local.claims import claim_job, make_facts, remove_leftovers
from dlc.places.local.containers import make_commands
from dlc.places.local.job import Job
from dlc.places.local.job_folder import write_folders
from dlc.places.local.lifecycle import ContainerState, JobContainers, JobRun
from dlc.places.local.memory import take_limit
from dlc.places.local.run import FAILURE, Show, find_foreign_platform, require_limits, show_nothing, take_files_back
from dlc.tune.request import REPORTS, Mode, Request, make_trial_job
from dlc.tune.trial_result import DATA, FAILED, MEMORY, TIGHT, TIME, Ended, Report, Trial, judge_trial
from dlc_runtime.scaling.batch_search import largest_that_fits

Start = Callable[[Mode, int], Ended]
Say = Callable[[str], None]
# In a trial's folder: what its hosts printed.
LOG = "log"
# So many characters of it may say why it ended.
LAST = 4000


@dataclass(frozen=True)
class Found:
    """What the trials of one mode showed. `batch` is the largest that fits and leaves the margin; `limit` says why."""

    mode: str
    batch: int
    # An outcome, or "" if the largest batch that was allowed fits.
    limit: str
    trials: tuple[Trial, ...]


def tune_batch(
    request: Request, engine: Engine, claims_folder: Path, say: Say, show: Show = show_nothing
) -> tuple[Found, ...]:
    """Find the largest batch of each mode. Raises TuneError if not one sample fits, or nothing can be measured."""
    require_limits(request.job, engine)
    remove_leftovers(claims_folder, engine)
    platform = find_foreign_platform(request.job.image, engine)
    request = replace(request, job=replace(take_limit(request.job, engine, say), platform=platform))

    def start(mode: Mode, batch: int) -> Ended:
        return run_trial(make_trial_job(request, mode, batch), engine, claims_folder, request.seconds)

    return tuple(Search(request, mode, start, say, show).run() for mode in request.modes)


class Search:
    """The trials of one mode."""

    def __init__(self, request: Request, mode: Mode, start: Start, say: Say, show: Show = show_nothing) -> None:
        self._request, self._mode, self._start, self._say, self._show = request, mode, start, say, show
        self._trials: list[Trial] = []
        self._sample_bytes = 0.0

    def run(self) -> Found:
        """Search. Raises TuneError if the job's own batch fails for a reason that no smaller batch cures."""
        batch = largest_that_fits(self._request.batch, self._request.most, self._fits)
        if not batch:
            self._raise(f"{self._mode.name}: not even a batch of 1 fits", self._trials[-1])
        above = [trial for trial in self._trials if trial.batch > batch]
        limit = min(above, key=lambda trial: trial.batch).outcome if above else ""
        return Found(self._mode.name, batch, limit, tuple(sorted(self._trials, key=lambda trial: trial.batch)))

    def _fits(self, batch: int) -> bool:
        with self._show(self._mode.name, f"batch {batch}"):
            ended = self._start(self._mode, batch)
        trial = judge_trial(self._mode.name, batch, ended, self._request.margin, self._sample_bytes)
        self._trials.append(trial)
        self._say(format_trial(trial))
        if trial.outcome == FAILED or (trial.outcome in (DATA, TIME) and batch <= self._request.batch):
            self._raise(f"{self._mode.name}, batch {batch}: {trial.reason or trial.outcome}", trial)
        if trial.fits and not self._sample_bytes:
            reports = [report for reports in ended.reports.values() for report in reports]
            self._sample_bytes = max(report["batch_bytes"] for report in reports) / batch
        return trial.fits

    def _raise(self, what: str, trial: Trial) -> None:
        log = make_trial_job(self._request, self._mode, trial.batch).folder / LOG
        remedy = {
            DATA: f"the job needs {self._request.steps + self._mode.skip} steps or more, over a DataLoader or a"
            " tf.data.Dataset: more epochs, or fewer --steps",
            TIME: "more --trial-seconds",
            MEMORY: "more --memory, a smaller model, or shorter inputs",
            TIGHT: "more --memory, or a smaller --margin",
        }.get(trial.outcome, "the job has to run with dlc run")
        raise TuneError(f"{what}; its log: {log}", remedy)


def format_trial(trial: Trial) -> str:
    """Return a trial in one line."""
    if trial.peak is None or trial.step_seconds is None:
        return f"{trial.mode}, batch {trial.batch}: does not fit ({trial.outcome}): {trial.reason}"
    of = f" of {format_bytes(trial.limit)}" if trial.limit else ""
    fits = "fits" if trial.fits else "too large"
    size = f"{format_bytes(trial.peak)}{of}"
    return f"{trial.mode}, batch {trial.batch}: {fits}, {size}, {1000 * trial.step_seconds:.0f} ms a step"


def run_trial(job: Job, engine: Engine, claims_folder: Path, seconds: float) -> Ended:
    """Run it to its end, or kill it after `seconds`. Raises what keeps any job from starting."""
    write_folders(job)
    log = job.folder / LOG
    with log.open("w") as out, claim_job(claims_folder, job.id, engine, make_facts(job)) as claim:
        try:
            hosts, host_log = JobContainers(engine, make_commands(job)), HostLog(len(job.hosts), out, out)
            states, expired = _follow_trial(hosts, host_log, seconds)
        finally:
            claim.clear()
    take_files_back(job, engine)
    failures = "".join(_read_text(job.opt_ml(host) / FAILURE) for host in job.hosts)
    reports = {host: _read_reports(job.opt_ml(host) / REPORTS) for host in job.hosts}
    return Ended(states, reports, f"{failures}\n{_read_text(log)[-LAST:]}", expired)


def _follow_trial(hosts: JobContainers, log: HostLog, seconds: float) -> tuple[Mapping[str, ContainerState], bool]:
    """Return the hosts' states, and whether they were killed because the time was over."""
    job_run, expired = JobRun(hosts, log), Event()

    def expire() -> None:
        expired.set()
        hosts.signal("KILL", hosts.containers)

    timer = Timer(seconds, expire)
    timer.daemon = True
    try:
        hosts.create_network()
        job_run.start()
        timer.start()
        job_run.wait()
    except (KeyboardInterrupt, OSError, DlcError):
        job_run.stop()
        raise
    finally:
        timer.cancel()
    return hosts.states(), expired.is_set()


def _read_reports(folder: Path) -> list[Report]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


def _read_text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
