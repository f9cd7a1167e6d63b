"""Runs a job from its first container to its collected results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dlc.core.errors import DlcError, ImageError, Interrupted
from dlc.engine.connection import Engine
from dlc.jobs.run import claims
from dlc.jobs.run.collect import collect
from dlc.jobs.run.containers import mount
from dlc.jobs.run.hosts import Hosts, State, remove, removed
from dlc.jobs.run.job import Job
from dlc.jobs.run.layout import lay_out
from dlc.jobs.run.log import Log
from dlc.jobs.run.session import Session, first_failure

FAILURE = "output/failure"  # in a host's /opt/ml: why it failed


def run(job: Job, engine: Engine, claims_folder: Path) -> int:
    """The job's exit code: 0, else that of the host that failed first. Its results are in the job's folder.

    Raises ImageError, EngineError, and Interrupted after a Ctrl-C.
    """
    log = Log(len(job.hosts), sys.stdout)
    if left := claims.remove_leftovers(claims_folder, engine):
        log.say(f"removed what a killed dlc left: {', '.join(left)}")
    require_image(job, engine)
    lay_out(job)
    log.say(f"job {job.id} starts on {', '.join(job.hosts)}")
    states: dict[str, State] = {}
    stopped: BaseException | None = None
    with claims.claimed(claims_folder, job.id, engine):
        try:
            stopped = _follow(job, engine, log, states)
        finally:
            remove(engine, job.id)
    take_back(job, engine)
    for line in collect(job):
        log.say(line)
    log.say(_summary(job, states, ended_by_itself=stopped is None))
    if isinstance(stopped, KeyboardInterrupt):
        raise Interrupted("stopped")
    if stopped:
        raise stopped
    failed = first_failure(states)
    return states[failed].exit_code if failed else 0


def _follow(job: Job, engine: Engine, log: Log, states: dict[str, State]) -> BaseException | None:
    """From the network to the last host's end; what stopped the job, where something did."""
    hosts = Hosts(engine, job)
    session = Session(job, hosts, log)
    stopped: BaseException | None = None
    try:
        hosts.create_network()
        session.start()
        session.wait()
    except (KeyboardInterrupt, OSError, DlcError) as error:
        stopped = error
        session.stop()
    states.update(hosts.states())
    gone = [host for host in job.hosts if host not in states]
    return stopped or (removed(gone) if gone else None)


def require_image(job: Job, engine: Engine) -> None:
    """Raise ImageError where the engine lacks the job's image."""
    if engine.docker("image", "inspect", "--format", "{{.Id}}", job.image, check=False, timeout=60.0).returncode:
        raise ImageError(f"{job.image}: the engine has no such image", "dlc build ID, or docker pull")


def take_back(job: Job, engine: Engine) -> None:
    """Give files that a container's root made to the user who runs dlc, who could not move or delete them."""
    mine = os.getuid()
    folders = [folder for folder in (job.folder, job.checkpoints) if folder and mine]
    for folder in folders:
        if any(path.lstat().st_uid != mine for path in folder.rglob("*")):
            words = ("--user", "0", "--network", "none", "--entrypoint", "chown", "--mount", mount(folder, "/given"))
            owner = f"{mine}:{os.getgid()}"
            engine.docker("run", "--rm", "--pull", "never", *words, job.image, "-R", "-h", owner, "/given")


def _summary(job: Job, states: dict[str, State], *, ended_by_itself: bool) -> str:
    """How each host has ended, why the first one failed, and where the results are."""
    codes = ", ".join(f"{host} {_ending(state)}" for host, state in states.items()) or "no host has started"
    failed = first_failure(states) if ended_by_itself else ""
    why = [f"  {_reason(job, failed)}"] if failed else []
    return "\n".join([f"job {job.id} has ended: {codes}", *why, f"  results: {job.folder}"])


def _ending(state: State) -> str:
    return f"{state.exit_code} (out of memory)" if state.out_of_memory else str(state.exit_code)


def _reason(job: Job, host: str) -> str:
    """The first line of a host's failure file, which names the host whose failure ended the others."""
    path = job.opt_ml(host) / FAILURE
    text = path.read_text(errors="replace") if path.is_file() else ""
    return text.splitlines()[0] if text.strip() else f"{host} failed first"
