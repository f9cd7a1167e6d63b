"""Starts, follows and stops the containers of one job: the only module here that asks an engine about them."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, TextIO

from dlc.core.errors import EngineError, ProcessError
from dlc.core.labels import JOB
from dlc.core.process import last_lines
from dlc.engine.connection import Engine
from dlc.engine.remedies import GPU_REMEDY
from dlc.jobs.run.containers import Container, JobCommands

# An engine that builds or unpacks on a slow disk may need a minute.
ASK_SECONDS = 180.0
# For so long a removal that somebody else began may take.
GONE_SECONDS = 10.0
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
        self.containers = commands.containers

    def create_network(self) -> None:
        """Make the network. Raises EngineError if the engine makes none."""
        try:
            self._engine.docker(*self.commands.network, timeout=ASK_SECONDS)
        except ProcessError as error:
            raise EngineError(
                f"the job's network was not created: {last_lines(error.message, 1)}",
                "`docker network prune` removes networks that nothing uses",
            ) from None

    def run(self, host: str, on_line: Callable[[str], None]) -> None:
        """Start a host, hand each line that it prints to `on_line`, return when it has ended.

        Raises EngineError if it never started, with the client's own words, or was removed by somebody else.
        """
        container = self.containers[host]
        said = ""

        def take(line: str) -> None:
            """Take a container's line. The client's own words, from its error on, are in the error that is raised."""
            nonlocal said
            if not said and line.startswith(CLIENT_SAYS) and not self._is_started(host):
                said = line
            if not said:
                on_line(line)

        self._engine.docker_lines(*container.words(), on_line=take, on_error=take, env=self.commands.secrets)
        state = self.states().get(host)
        if state is None and not said:
            raise removal_error([host])
        if state is None or not state.started:
            raise EngineError(
                f"{host} was not started: {said.removeprefix(CLIENT_SAYS) or 'the docker client did not say why'}",
                next((remedy for words, remedy in REFUSALS.items() if re.search(words, said)), EXPLAIN),
            )
        # Somebody ended the client.
        if state.running:
            self._engine.docker_lines("wait", container.name, on_line=lambda _: None)

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
        done = self._engine.docker(
            "container", "inspect", "--format", form, *hosts, check=False, timeout=ASK_SECONDS
        )  # fmt: skip
        rows = [line.partition(" ") for line in done.stdout.splitlines() if line]
        return {hosts[name.lstrip("/")]: _parse_state(json.loads(text)) for name, _, text in rows}

    def signal(self, name: str, hosts: Iterable[str]) -> None:
        """Send a signal to the first process of each of these hosts; to those that have just ended it says nothing."""
        names = [self.containers[host].name for host in hosts]
        if names:
            self._engine.docker("kill", "--signal", name, *names, check=False, timeout=ASK_SECONDS)


def remove_containers(engine: Engine, job_id: str) -> list[str]:
    """Remove everything of a job; return the names of what there was.

    Raises ProcessError for what cannot be removed.
    """
    mine = ("--filter", f"label={JOB}={job_id}", "--format")
    found = _remove_all(engine, ("ps", "--all", *mine, "{{.Names}}"), ("rm", "--force", "--volumes"))
    return found + _remove_all(engine, ("network", "ls", *mine, "{{.Name}}"), ("network", "rm"))


def _remove_all(engine: Engine, listing: tuple[str, ...], removal: tuple[str, ...]) -> list[str]:
    """Remove all that an engine lists; return the names.

    It refuses what somebody else just removes: that is waited for.
    """
    found = left = engine.docker(*listing, timeout=ASK_SECONDS).stdout.split()
    deadline = time.monotonic() + GONE_SECONDS
    while left:
        late = time.monotonic() > deadline
        engine.docker(*removal, *left, check=late, timeout=ASK_SECONDS)
        left = engine.docker(*listing, timeout=ASK_SECONDS).stdout.split()
        if left and late:
            raise ProcessError(
                f"{', '.join(left)}: still listed by the engine, which reports it as removed",
                f"restart the engine, then: docker {' '.join((*removal, *left))}",
            )
        time.sleep(0.2 if left else 0.0)
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
        """Send a signal once to each host, as soon as it runs; return when all have ended, or after `seconds`."""
        deadline = time.monotonic() + seconds
        told: set[str] = set()
        while self._left and time.monotonic() < deadline:
            running = {host for host, state in self._hosts.states().items() if state.running}
            self._hosts.signal(name, sorted(running - told))
            told |= running
            self._next(ASK_AGAIN_SECONDS)

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


def find_first_failure(states: dict[str, ContainerState]) -> str:
    """Return the host that was the first to end with another code than 0; "" if none has."""
    failed = [host for host, state in states.items() if state.exit_code]
    return min(failed, key=lambda host: states[host].ended, default="")


class HostLog:
    """Prints what hosts say to `out`, and what dlc says of them to `said`, which is stderr if none is named."""

    def __init__(self, hosts: int, out: TextIO, said: TextIO | None = None) -> None:
        self._named = hosts > 1
        self._out = out
        self._said = said
        self._lock = Lock()

    def taker(self, host: str) -> Callable[[str], None]:
        """Return what prints one host's lines. The launcher names host and rank itself if a host has several ranks."""
        own = f"[{host}:"
        prefix = f"[{host}] " if self._named else ""

        def take(line: str) -> None:
            with self._lock:
                self._out.write(f"{line}\n" if line.startswith(own) else f"{prefix}{line}\n")
                self._out.flush()

        return take

    def say(self, text: str) -> None:
        """Print a line of dlc's own. It waits for nobody who does not read the hosts' lines."""
        # The terminal may be closed: the job is stopped all the same.
        with suppress(OSError):
            print(f"dlc: {text}", file=self._said or sys.stderr, flush=True)
