"""Runs a job from its first container to its collected results."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path

from dlc.core.errors import DlcError, ImageError, Interrupted
from dlc.engine.connection import Engine
from dlc.engine.questions import ask
from dlc.jobs.run import claims
from dlc.jobs.run.collect import PARTS, collect
from dlc.jobs.run.containers import BASE, mount
from dlc.jobs.run.hosts import Hosts, State, removed
from dlc.jobs.run.job import Job
from dlc.jobs.run.layout import lay_out, remove_folders
from dlc.jobs.run.limits import require_limits
from dlc.jobs.run.log import Log
from dlc.jobs.run.session import Session, first_failure

FAILURE = "output/failure"  # in a host's /opt/ml: why it failed
REASON_LENGTH = 1024  # characters


def run(job: Job, engine: Engine, claims_folder: Path) -> int:
    """The job's exit code: 0, else that of the host that failed first. Its results are in the job's folder.

    Raises UsageError, ImageError, EngineError, and Interrupted after a Ctrl-C.
    """
    require_limits(job, engine)
    log = Log(len(job.hosts), sys.stdout)
    if left := claims.remove_leftovers(claims_folder, engine):
        log.say(f"removed what a killed dlc left: {', '.join(left)}")
    require_image(job, engine)
    lay_out(job)
    states: dict[str, State] = {}
    stopped: BaseException | None = None
    with ExitStack() as block:
        try:
            claim = block.enter_context(claims.claimed(claims_folder, job.id, engine))
        except BaseException:  # a cache that cannot be written, a Ctrl-C
            remove_folders(job)
            raise
        log.say(f"job {job.id} starts on {', '.join(job.hosts)}")
        try:
            stopped = _follow(job, engine, log, states)
            if not stopped or _any_started(states):
                _gather(job, engine, log, states, ended_by_itself=stopped is None)
        finally:
            claim.clear()  # what an engine does not remove costs nobody the results
    if stopped and not _any_started(states):
        remove_folders(job)
    if isinstance(stopped, KeyboardInterrupt):
        raise Interrupted("stopped")
    if stopped:
        raise stopped
    failed = first_failure(states)
    return states[failed].exit_code if failed else 0


def _any_started(states: dict[str, State]) -> bool:
    return any(state.started for state in states.values())


def _gather(job: Job, engine: Engine, log: Log, states: dict[str, State], *, ended_by_itself: bool) -> None:
    """The results into the job's folder, and how it has ended onto stderr."""
    take_back(job, engine)
    for line in collect(job):
        log.say(line)
    log.say(_summary(job, states, ended_by_itself=ended_by_itself))


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
    if ask(engine, "image", "inspect", "--format", "{{.Id}}", job.image).returncode:
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
    why = [f"  {line}" for line in _reason(job, failed)] if failed else []
    return "\n".join([f"job {job.id} has ended: {codes}", *why, f"  results: {job.folder}"])


def _ending(state: State) -> str:
    return f"{state.exit_code} (out of memory)" if state.out_of_memory else str(state.exit_code)


def _reason(job: Job, host: str) -> list[str]:
    """What a host's failure file says: which rank failed on which host, the error itself, and where all of it is.

    Paths are those of this machine.
    """
    path = job.opt_ml(host) / FAILURE
    lines = [line for line in on_this_machine(_shown(path), job, host).splitlines() if line.strip()]
    if not lines:
        return [f"{host} failed first"]
    error = [lines[-1].strip()] if len(lines) > 1 else []
    return [lines[0], *error, f"the whole reason: {path}"]


def on_this_machine(text: str, job: Job, host: str) -> str:
    """A message of a host with its paths as they are here, once the results are collected."""
    places = {f"{BASE}/input/data/{name}": folder for name, folder in job.channels.items()}
    places |= {f"{BASE}/checkpoints": job.checkpoints} if job.checkpoints else {}
    places |= {f"{BASE}/{place}": job.folder / part for part, place in PARTS.items()}
    for inside, here in (places | {BASE: job.opt_ml(host)}).items():
        text = re.sub(rf"{re.escape(inside)}(?![\w.-])", str(here).replace("\\", r"\\"), text)
    return text


def _shown(path: Path) -> str:
    """What a platform would show of a failure file: its beginning, whose last line is the failed process's last."""
    return path.read_text(errors="replace")[:REASON_LENGTH] if path.is_file() else ""
