"""Runs one trial: a job whose lines go to a file, with a bound in time, and its reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Timer

from dlc.core.errors import DlcError
from dlc.engine.connection import Engine
from dlc.jobs.run import claims
from dlc.jobs.run.hosts import Hosts, State
from dlc.jobs.run.job import Job
from dlc.jobs.run.layout import lay_out
from dlc.jobs.run.log import Log
from dlc.jobs.run.run import FAILURE, take_back
from dlc.jobs.run.session import Session
from dlc.jobs.tune.request import REPORTS
from dlc.jobs.tune.verdict import Ended, Report

LOG = "log"  # in a trial's folder: what its hosts printed
LAST = 4000  # characters of it, which may say why it ended


def run_trial(job: Job, engine: Engine, claims_folder: Path, seconds: float) -> Ended:
    """Run it to its end, or kill it after `seconds`. Raises what keeps any job from starting."""
    lay_out(job)
    log = job.folder / LOG
    with log.open("w") as out, claims.claimed(claims_folder, job.id, engine) as claim:
        try:
            states, expired = _follow(job, Hosts(engine, job), Log(len(job.hosts), out, out), seconds)
        finally:
            claim.clear()
    take_back(job, engine)
    failures = "".join(_text(job.opt_ml(host) / FAILURE) for host in job.hosts)
    reports = {host: _reports(job.opt_ml(host) / REPORTS) for host in job.hosts}
    return Ended(states, reports, f"{failures}\n{_text(log)[-LAST:]}", expired)


def _follow(job: Job, hosts: Hosts, log: Log, seconds: float) -> tuple[Mapping[str, State], bool]:
    """The hosts' states, and whether they were killed because the time was over."""
    session, expired = Session(job, hosts, log), Event()

    def expire() -> None:
        expired.set()
        hosts.signal("KILL", job.hosts)

    timer = Timer(seconds, expire)
    timer.daemon = True
    try:
        hosts.create_network()
        session.start()
        timer.start()
        session.wait()
    except (KeyboardInterrupt, OSError, DlcError):
        session.stop()
        raise
    finally:
        timer.cancel()
    return hosts.states(), expired.is_set()


def _reports(folder: Path) -> list[Report]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
