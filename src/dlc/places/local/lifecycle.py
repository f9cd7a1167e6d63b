"""Starts, follows and stops the containers of one job: the only module here that asks an engine about them."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any

from dlc.core.errors import DlcError, EngineError, ProcessError
from dlc.core.labels import JOB
from dlc.core.process import last_lines
from dlc.engine.docker_client import Engine
from dlc.engine.questions import ASK_SECONDS, PAUSES_SECONDS, ask_engine, tell_of_waiting
from dlc.engine.remedies import GPU_REMEDY
from dlc.job.host_log import HostLog
from dlc.places.local.containers import Container, JobCommands

# Seconds between two attempts to remove something.
FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0
# To make a container or a network.
ATTEMPTS = 3
# What an engine says of one that it could not make within a bound of its own: nothing is wrong with the job.
BUSY = re.compile(r"(?i)deadline ?exceeded|shim\b.*\btime(?:d )?out|time(?:d )?out\b.*\bshim\b")
# The client's own errors begin so.
CLIENT_SAYS = "docker: "
EXPLAIN = "dlc run --explain shows the command"
# What an engine says -> what helps.
REFUSALS = {
    r"(?i)range of cpus": "ask for fewer --cpus: the engine's host has no more",
    r"(?i)minimum memory limit": "ask for more --memory",
    r"(?i)nvidia-container-cli: device error": "ask for GPUs that are there: nvidia-smi -L lists them",
    r"(?i)could not select device driver|no known gpu vendor|nvidia-container-cli|cdi.*nvidia": GPU_REMEDY,
}
# From SIGKILL to the end of a container.
KILL_SECONDS = 20.0
ASK_AGAIN_SECONDS = 0.5


@dataclass(frozen=True)
class ContainerState:
    """What the engine says of a container."""

    started: bool
    running: bool
    # Of its first process on this machine; 0 if none runs.
    pid: int
    exit_code: int
    # The order of these texts is the order of time.
    ended: str
    out_of_memory: bool


class JobContainers:
    """One job's hosts. Nothing is made before it is asked for."""

    def __init__(self, engine: Engine, commands: JobCommands) -> None:
        self._engine = engine
        self.commands = commands
        # No host is started any more.
        self.stopped = False
        self.containers = commands.containers

    def create_network(self) -> None:
        """Make the network. Raises EngineError if the engine makes none."""
        for pause in (*PAUSES_SECONDS[: ATTEMPTS - 1], 0.0):
            try:
                with tell_of_waiting("it makes the job's network"):
                    self._engine.docker(*self.commands.network, timeout=ASK_SECONDS)
                return
            except ProcessError as error:
                # It was made, and the answer came too late.
                if self._has_network():
                    return
                if not (pause and BUSY.search(error.message)):
                    raise EngineError(
                        f"the job's network was not created: {last_lines(error.message, 1)}",
                        "`docker network prune` removes networks that nothing uses",
                    ) from None
            time.sleep(pause)

    def _has_network(self) -> bool:
        mine = ("--filter", f"label={JOB}={self.commands.job_id}", "--format", "{{.Name}}")
        return self.commands.network[-1] in ask_engine(self._engine, "network", "ls", *mine).stdout.split()

    def run(self, host: str, on_line: Callable[[str], None]) -> None:
        """Start a host, hand each line that it prints to `on_line`, return when it has ended.

        Raises EngineError if it never started, with the client's own words, or was removed by somebody else.
        """
        name = self.containers[host].name
        said, state = self._run_once(host, on_line)
        for pause in PAUSES_SECONDS[: ATTEMPTS - 1]:
            if self.stopped or (state and state.started) or not BUSY.search(said):
                break
            time.sleep(pause)
            self._engine.docker("rm", "--force", "--volumes", name, check=False, timeout=ASK_SECONDS)
            if not self.stopped:
                said, state = self._run_once(host, on_line)
        if state is None and not said:
            raise removal_error([host])
        if state is None or not state.started:
            raise EngineError(
                f"{host} was not started: {said.removeprefix(CLIENT_SAYS) or 'the docker client did not say why'}",
                next((remedy for words, remedy in REFUSALS.items() if re.search(words, said)), EXPLAIN),
            )
        # Somebody ended the client.
        if state.running:
            self._engine.docker_lines("wait", name, on_line=lambda _: None)

    def _run_once(self, host: str, on_line: Callable[[str], None]) -> tuple[str, ContainerState | None]:
        """Return the client's own words if the host did not start, and its state at the end."""
        said = ""

        def take(line: str) -> None:
            """Take a container's line. The client's own words, from its error on, are in the error that is raised."""
            nonlocal said
            answered()
            if not said and line.startswith(CLIENT_SAYS) and not self._is_started(host):
                said = line
            if not said:
                on_line(line)

        words = self.containers[host].words()
        with tell_of_waiting(f"it starts {host}", lambda: self._is_started(host)) as answered:
            self._engine.docker_lines(*words, on_line=take, on_error=take, env=self.commands.secrets)
        return said, self.states().get(host)

    def _is_started(self, host: str) -> bool:
        state = self.states().get(host)
        return state is not None and state.started

    def start(self, container: Container) -> None:
        """Start a container and leave it to itself."""
        self._engine.docker(*container.words(detached=True), env=self.commands.secrets, timeout=ASK_SECONDS)

    def states(self) -> dict[str, ContainerState]:
        """Return the state of each host that has a container."""
        hosts = {container.name: host for host, container in self.containers.items()}
        form = "{{.Name}} {{json .State}}"
        done = ask_engine(self._engine, "container", "inspect", "--format", form, *hosts)
        rows = [line.partition(" ") for line in done.stdout.splitlines() if line]
        return {hosts[name.lstrip("/")]: _parse_state(json.loads(text)) for name, _, text in rows}

    def signal(self, name: str, hosts: Iterable[str]) -> set[str]:
        """Send a signal to the first process of each of these hosts; return those that got it.

        Hosts that have just ended get none, and that is no error.
        """
        names = {self.containers[host].name: host for host in hosts}
        if not names:
            return set()
        with tell_of_waiting(f"it delivers SIG{name}"):
            done = self._engine.docker("kill", "--signal", name, *names, check=False, timeout=ASK_SECONDS)
        got = done.stdout.split() if done.returncode else names
        return {host for name, host in names.items() if name in got}


def remove_containers(engine: Engine, job_id: str, seconds: float = ASK_SECONDS) -> list[str]:
    """Remove everything of a job; return the names of what there was.

    Raises ProcessError for what cannot be removed within `seconds` after it was refused first.
    """
    mine = ("--filter", f"label={JOB}={job_id}", "--format")
    with tell_of_waiting(f"it removes the containers of job {job_id}"):
        found = _remove_all(engine, ("ps", "--all", *mine, "{{.Names}}"), ("rm", "--force", "--volumes"), seconds)
        return found + _remove_all(engine, ("network", "ls", *mine, "{{.Name}}"), ("network", "rm"), seconds)


def _remove_all(engine: Engine, listing: tuple[str, ...], removal: tuple[str, ...], seconds: float) -> list[str]:
    """Remove all that an engine lists; return the names.

    It refuses what somebody else just removes, and what a busy host does not end within the engine's own bounds.
    """
    found = left = ask_engine(engine, *listing).stdout.split()
    deadline, pause = math.inf, FIRST_PAUSE
    while left:
        late = time.monotonic() > deadline
        done = engine.docker(*removal, *left, check=False, timeout=ASK_SECONDS)
        left = ask_engine(engine, *listing).stdout.split()
        if left and late:
            said = last_lines(done.stderr, 1) or "still listed by the engine, which reports it as removed"
            raise ProcessError(
                f"{', '.join(left)}: {said}", f"restart the engine, then: docker {' '.join((*removal, *left))}"
            )
        if left:
            deadline = min(deadline, time.monotonic() + seconds)
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)
    return found


def removal_error(hosts: Iterable[str]) -> EngineError:
    """Return the error for hosts whose containers are gone before the job's end: nobody knows how they ended."""
    return EngineError(f"somebody removed the container of {', '.join(hosts)} while the job ran", "start the job again")


def _parse_state(found: dict[str, Any]) -> ContainerState:
    return ContainerState(
        started=not str(found["StartedAt"]).startswith("0001-"),
        running=bool(found["Running"]),
        pid=int(found["Pid"]),
        exit_code=int(found["ExitCode"]),
        ended=parse_moment(str(found["FinishedAt"])),
        out_of_memory=bool(found.get("OOMKilled")),
    )


def parse_moment(text: str) -> str:
    """Return a time of the engine, which drops zeros at the end of the fraction, as text that sorts by time."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:<09}"


class JobRun:
    """Each host has a thread that runs it; the main thread waits, so that Ctrl-C reaches it."""

    def __init__(self, hosts: JobContainers, log: HostLog) -> None:
        self._hosts = hosts
        self._log = log
        # Hosts that have been started and have not ended.
        self._left: set[str] = set()
        # A host and its error. "" and an error: the output is broken.
        self._ended: Queue[tuple[str, BaseException | None]] = Queue()

    def start(self) -> None:
        """Start all hosts at once."""
        for host in self._hosts.containers:
            self._left.add(host)
            Thread(target=self._follow, args=(host,), daemon=True).start()

    def wait(self) -> None:
        """Return when all hosts have ended. Raises what kept one from starting, and OSError for a broken output."""
        while self._left:
            host = self._next(None)
            if self._left and host:
                self._tell_of_failure(host)

    def stop(self) -> None:
        """Send SIGTERM to every host, and SIGKILL to those that still run after the job's time."""
        self._hosts.stopped = True
        if not self._left:
            return
        seconds = self._hosts.commands.stop_seconds
        try:
            self._log.say(f"stopping {self._still()}: {seconds} s to save; Ctrl-C again kills")
            self._send("TERM", seconds)
        except KeyboardInterrupt:
            self._log.say(f"killing {self._still()}")
        self._send("KILL", KILL_SECONDS)

    def _send(self, name: str, seconds: float) -> None:
        """Send a signal once to each host, as soon as it runs; return when all have ended, or had `seconds` after it.

        A busy engine may need a minute to deliver it, and that is no part of a host's time.
        """
        begin = time.monotonic()
        # Of hosts that have got it.
        until: dict[str, float] = {}
        while self._left and self._has_time(until, begin, seconds):
            running = {host for host, state in self._hosts.states().items() if state.running}
            got = self._hosts.signal(name, sorted(running - set(until)))
            until |= dict.fromkeys(got, time.monotonic() + seconds)
            self._next(ASK_AGAIN_SECONDS)

    def _has_time(self, until: dict[str, float], begin: float, seconds: float) -> bool:
        """Tell whether a host may still end by the signal: one that has not got it may never run, or not get it."""
        now = time.monotonic()
        return any(now < until.get(host, begin + seconds) for host in self._left)

    def _next(self, seconds: float | None) -> str:
        """Return the host that has ended, "" for none within `seconds`.

        Raises its error while nobody has stopped the job.
        """
        try:
            host, error = self._ended.get(timeout=seconds)
        except Empty:
            return ""
        self._left.discard(host)
        if error and seconds is None:
            raise error
        return host

    def _follow(self, host: str) -> None:
        error: BaseException | None = None
        try:
            self._hosts.run(host, self._taker(host))
        except Exception as caught:
            error = caught
        self._ended.put((host, error))

    def _taker(self, host: str) -> Callable[[str], None]:
        take = self._log.taker(host)
        broken = False

        def safely(line: str) -> None:
            """Read a host's output to its end also when nobody reads ours, or the host would stand still."""
            nonlocal broken
            if broken:
                return
            try:
                take(line)
            except OSError as error:
                broken = True
                self._ended.put(("", error))

        return safely

    def _tell_of_failure(self, host: str) -> None:
        state = self._hosts.states().get(host)
        if state and state.exit_code:
            self._log.say(f"{host} has failed with exit code {state.exit_code}; still running: {self._still()}")

    def _still(self) -> str:
        return ", ".join(host for host in self._hosts.containers if host in self._left)


def follow_job(
    engine: Engine, commands: JobCommands, log: HostLog, beside: AbstractContextManager[None]
) -> tuple[BaseException | None, dict[str, ContainerState]]:
    """Follow a job from the network to the last host's end, with `beside` open from before the first host starts.

    Return what stopped the job, if anything did, and the state of each host that has a container.
    """
    hosts = JobContainers(engine, commands)
    job_run = JobRun(hosts, log)
    stopped: BaseException | None = None
    # Behind the hosts, which are stopped first.
    with ExitStack() as block:
        try:
            hosts.create_network()
            block.enter_context(beside)
            job_run.start()
            job_run.wait()
        except (KeyboardInterrupt, OSError, DlcError) as error:
            stopped = error
            job_run.stop()
    states = hosts.states()
    gone = [host for host in hosts.containers if host not in states]
    return stopped or (removal_error(gone) if gone else None), states


def find_first_failure(states: dict[str, ContainerState]) -> str:
    """Return the host that was the first to end with another code than 0; "" if none has."""
    failed = [host for host, state in states.items() if state.exit_code]
    return min(failed, key=lambda host: states[host].ended, default="")
