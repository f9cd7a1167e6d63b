"""The containers and the network of one job on an engine: the only module here that talks to one."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dlc.core.errors import EngineError, ProcessError
from dlc.core.labels import JOB
from dlc.core.process import tail
from dlc.engine.connection import Engine
from dlc.engine.questions import ASK_SECONDS, PAUSES, ask, told
from dlc.engine.remedies import GPU_REMEDY
from dlc.jobs.run.containers import Container, containers, labels
from dlc.jobs.run.job import Job

FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0  # seconds between two attempts to remove something
ATTEMPTS = 3  # to make a container or a network
# What an engine says of one that it could not make within a bound of its own: nothing is wrong with the job.
BUSY = re.compile(r"(?i)deadline ?exceeded|shim\b.*\btime(?:d )?out|time(?:d )?out\b.*\bshim\b")
CLIENT_SAYS = "docker: "  # what the client's own errors begin with
EXPLAIN = "dlc run --explain shows the command"
REFUSALS = {  # what an engine says -> what helps
    r"(?i)range of cpus": "ask for fewer --cpus: the engine's host has no more",
    r"(?i)minimum memory limit": "ask for more --memory",
    r"(?i)nvidia-container-cli: device error": "ask for GPUs that are there: nvidia-smi -L lists them",
    r"(?i)could not select device driver|no known gpu vendor|nvidia-container-cli|cdi.*nvidia": GPU_REMEDY,
}


@dataclass(frozen=True)
class State:
    """What the engine says of a container."""

    started: bool
    running: bool
    pid: int  # of its first process on this machine; 0 where none runs
    exit_code: int
    ended: str  # such that text order is order of time
    out_of_memory: bool


class Hosts:
    """One job's hosts. Nothing is made before it is asked for."""

    def __init__(self, engine: Engine, job: Job) -> None:
        self._engine = engine
        self._job = job
        self.stopped = False  # no host is started any more
        self.containers = {container.host: container for container in containers(job)}

    def create_network(self) -> None:
        """Raises EngineError where the engine makes none."""
        words = [word for label in labels(self._job) for word in ("--label", label)]
        for pause in (*PAUSES[: ATTEMPTS - 1], 0.0):
            try:
                with told("it makes the job's network"):
                    self._engine.docker("network", "create", *words, self._job.name, timeout=ASK_SECONDS)
                return
            except ProcessError as error:
                if self._has_network():  # it was made, and the answer came too late
                    return
                if not (pause and BUSY.search(error.message)):
                    raise EngineError(
                        f"the job's network was not created: {tail(error.message, 1)}",
                        "`docker network prune` removes networks that nothing uses",
                    ) from None
            time.sleep(pause)

    def _has_network(self) -> bool:
        mine = ("--filter", f"label={JOB}={self._job.id}", "--format", "{{.Name}}")
        return self._job.name in ask(self._engine, "network", "ls", *mine).stdout.split()

    def run(self, host: str, on_line: Callable[[str], None]) -> None:
        """Start a host, hand each line that it prints to `on_line`, return when it has ended.

        Raises EngineError where it never started, with the client's own words, or was removed by somebody else.
        """
        container = self.containers[host]
        said, state = self._run_once(host, on_line)
        for pause in PAUSES[: ATTEMPTS - 1]:
            if self.stopped or (state and state.started) or not BUSY.search(said):
                break
            time.sleep(pause)
            self._engine.docker("rm", "--force", "--volumes", container.name, check=False, timeout=ASK_SECONDS)
            if not self.stopped:
                said, state = self._run_once(host, on_line)
        if state is None and not said:
            raise removed([host])
        if state is None or not state.started:
            raise EngineError(
                f"{host} was not started: {said.removeprefix(CLIENT_SAYS) or 'the docker client did not say why'}",
                next((remedy for words, remedy in REFUSALS.items() if re.search(words, said)), EXPLAIN),
            )
        if state.running:  # somebody ended the client
            self._engine.docker_lines("wait", container.name, on_line=lambda _: None)

    def _run_once(self, host: str, on_line: Callable[[str], None]) -> tuple[str, State | None]:
        """The client's own words where the host did not start, and its state at the end."""
        said = ""

        def take(line: str) -> None:
            """A container's line. The client's own words, from its error on, are in the error that is raised."""
            nonlocal said
            if not said and line.startswith(CLIENT_SAYS) and not self._is_started(host):
                said = line
            if not said:
                on_line(line)

        words = self.containers[host].words()
        self._engine.docker_lines(*words, on_line=take, on_error=take, env=self._job.secrets)
        return said, self.states().get(host)

    def _is_started(self, host: str) -> bool:
        state = self.states().get(host)
        return state is not None and state.started

    def start(self, container: Container) -> None:
        """Start a container and leave it to itself."""
        self._engine.docker(*container.words(detached=True), env=self._job.secrets, timeout=ASK_SECONDS)

    def states(self) -> dict[str, State]:
        """The state of each host that has a container."""
        hosts = {container.name: host for host, container in self.containers.items()}
        form = "{{.Name}} {{json .State}}"
        done = ask(self._engine, "container", "inspect", "--format", form, *hosts)
        rows = [line.partition(" ") for line in done.stdout.splitlines() if line]
        return {hosts[name.lstrip("/")]: _state(json.loads(text)) for name, _, text in rows}

    def signal(self, name: str, hosts: Iterable[str]) -> set[str]:
        """Send a signal to the first process of each of these hosts; those that got it. Hosts that have just ended get
        none, and that is no error.
        """
        names = {self.containers[host].name: host for host in hosts}
        if not names:
            return set()
        with told(f"it delivers SIG{name}"):
            done = self._engine.docker("kill", "--signal", name, *names, check=False, timeout=ASK_SECONDS)
        got = done.stdout.split() if done.returncode else names
        return {host for name, host in names.items() if name in got}


def remove(engine: Engine, job_id: str, seconds: float = ASK_SECONDS) -> list[str]:
    """Remove everything of a job; the names of what there was.

    Raises ProcessError for what cannot be removed within `seconds` after it was refused first.
    """
    mine = ("--filter", f"label={JOB}={job_id}", "--format")
    with told(f"it removes the containers of job {job_id}"):
        found = _remove(engine, ("ps", "--all", *mine, "{{.Names}}"), ("rm", "--force", "--volumes"), seconds)
        return found + _remove(engine, ("network", "ls", *mine, "{{.Name}}"), ("network", "rm"), seconds)


def _remove(engine: Engine, listing: tuple[str, ...], removal: tuple[str, ...], seconds: float) -> list[str]:
    """Remove all that an engine lists; the names.

    It refuses what somebody else just removes, and what a busy host does not end within the engine's own bounds.
    """
    found = left = ask(engine, *listing).stdout.split()
    deadline, pause = math.inf, FIRST_PAUSE
    while left:
        late = time.monotonic() > deadline
        done = engine.docker(*removal, *left, check=False, timeout=ASK_SECONDS)
        left = ask(engine, *listing).stdout.split()
        if left and late:
            said = tail(done.stderr, 1) or "still listed by the engine, which reports it as removed"
            raise ProcessError(
                f"{', '.join(left)}: {said}", f"restart the engine, then: docker {' '.join((*removal, *left))}"
            )
        if left:
            deadline = min(deadline, time.monotonic() + seconds)
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)
    return found


def removed(hosts: Iterable[str]) -> EngineError:
    """The error for hosts whose containers are gone before the job's end: nobody knows how they ended."""
    return EngineError(f"somebody removed the container of {', '.join(hosts)} while the job ran", "start the job again")


def _state(found: dict[str, Any]) -> State:
    return State(
        started=not str(found["StartedAt"]).startswith("0001-"),
        running=bool(found["Running"]),
        pid=int(found["Pid"]),
        exit_code=int(found["ExitCode"]),
        ended=moment(str(found["FinishedAt"])),
        out_of_memory=bool(found.get("OOMKilled")),
    )


def moment(text: str) -> str:
    """A time of the engine, which drops zeros at the end of the fraction, as text that sorts by time."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:<09}"
