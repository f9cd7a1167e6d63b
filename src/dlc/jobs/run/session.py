"""Follows the containers of a job from their start until all have ended, or stops them."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, Queue
from threading import Thread

from dlc.jobs.run.hosts import Hosts, State
from dlc.jobs.run.job import Job
from dlc.jobs.run.log import Log

KILL_SECONDS = 20.0  # from SIGKILL to the end of a container
ASK_AGAIN_SECONDS = 0.5


class Session:
    """Each host has a thread that runs it; the main thread waits, so that Ctrl-C reaches it."""

    def __init__(self, job: Job, hosts: Hosts, log: Log) -> None:
        self._job = job
        self._hosts = hosts
        self._log = log
        self._left: set[str] = set()  # hosts that have been started and have not ended
        self._ended: Queue[tuple[str, BaseException | None]] = Queue()  # "" and an error: the output is broken

    def start(self) -> None:
        """Start all hosts at once."""
        for host in self._job.hosts:
            self._left.add(host)
            Thread(target=self._follow, args=(host,), daemon=True).start()

    def wait(self) -> None:
        """Return when all hosts have ended. Raises what kept one from starting, and OSError for a broken output."""
        while self._left:
            host = self._next(None)
            if self._left and host:
                self._tell_of_failure(host)

    def stop(self) -> None:
        """SIGTERM to every host, and SIGKILL to those that still run after the job's time."""
        self._hosts.stopped = True
        if not self._left:
            return
        seconds = self._job.stop_seconds
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
        until: dict[str, float] = {}  # of hosts that have got it
        while self._left and self._has_time(until, begin, seconds):
            running = {host for host, state in self._hosts.states().items() if state.running}
            got = self._hosts.signal(name, sorted(running - set(until)))
            until |= dict.fromkeys(got, time.monotonic() + seconds)
            self._next(ASK_AGAIN_SECONDS)

    def _has_time(self, until: dict[str, float], begin: float, seconds: float) -> bool:
        """Whether a host may still end by the signal: one that has not got it may never run, or not get it at all."""
        now = time.monotonic()
        return any(now < until.get(host, begin + seconds) for host in self._left)

    def _next(self, seconds: float | None) -> str:
        """The host that has ended, "" for none within `seconds`. Raises its error while nobody has stopped the job."""
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
            """A host's output is read to its end also when nobody reads ours, or the host would stand still."""
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
        return ", ".join(host for host in self._job.hosts if host in self._left)


def first_failure(states: dict[str, State]) -> str:
    """The host that was the first to end with another code than 0; "" where none has."""
    failed = [host for host, state in states.items() if state.exit_code]
    return min(failed, key=lambda host: states[host].ended, default="")
