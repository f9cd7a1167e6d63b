"""Threads that find servers, and ask a silent one what it does. Calls control only."""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import (
    DataServiceError,
    HangingUserFunctionError,
    RefusedError,
    ServersDifferError,
    ServersLostError,
)
from dlc_runtime.dataservice.schedule.likeness import choose, compare
from dlc_runtime.dataservice.wire import control_rpc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dlc_runtime.dataservice.schedule.likeness import Likeness

LOG = logging.getLogger("dlc.dataservice")
# Between two looks at a server that is not there.
AGAIN_SECONDS = 1.0
# For each server to answer for the first time, or not.
FIRST_SECONDS = 5.0
# Servers that are asked at a time.
CALLERS = 16
# Within which an id has to come before its server is asked about it; also between two looks.
LOOK_SECONDS = 5.0
# Characters.
MOST_STACK = 8000


class FoundServer(NamedTuple):
    """A server that answered: where its workers listen."""

    # Host:port of its control, as the user or the job names it.
    server: str
    address: str
    host: str
    ports: tuple[int, ...]
    data: dict[str, Any]
    # Of a few samples: `schedule/likeness.py`.
    prints: list[Any]


class ServerDiscovery:
    """`found` is called with every server that answers, again whenever `look_again` was asked for it."""

    def __init__(self, servers: Mapping[str, str], token: bytes, found: Callable[[FoundServer], None]) -> None:
        self.servers, self.token, self._found = servers, token, found
        # Server that does not answer -> why.
        self.silent: dict[str, str] = {name: f"{name}: it was not asked yet" for name in servers}
        self.data: dict[str, Any] | None = None
        # Described the data first.
        self.host = ""
        # Server -> its last answer.
        self._known: dict[str, FoundServer] = {}
        self.fatal: DataServiceError | None = None
        # When a server answered last.
        self.answered_at = 0.0
        self._wanted = set(servers)
        self._unasked = set(servers)
        self._changed = threading.Condition()
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, name="dlc-data-discovery", daemon=True)
            for _ in range(min(CALLERS, len(self.servers)))
        ]
        self._due: dict[str, float] = dict.fromkeys(servers, 0.0)
        self._busy: set[str] = set()
        for thread in self._threads:
            thread.start()

    def look_again(self, server: str) -> None:
        """Ask a server whose workers cannot be reached: it may have gone, or been started anew."""
        with self._changed:
            self._wanted.add(server)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for_data(self, seconds: float) -> dict[str, Any] | None:
        """Return what the first server that answers describes; None if none does in time."""
        with self._changed:
            self._changed.wait_for(lambda: self.data is not None or self.fatal is not None, seconds)
            # No batch is taken before servers that are there were compared.
            self._changed.wait_for(lambda: self.fatal is not None or not self._unasked, min(seconds, FIRST_SECONDS))
            return self.data

    def status(self, server: str, stacks_after: float) -> Any:
        """Return what a server's workers do; None if it does not answer."""
        try:
            answer = control_rpc.call(
                self.servers[server], self.token, control_rpc.STATUS, {"stacks_after": stacks_after}
            )
        except DataServiceError as error:
            self.silent[server] = str(error)
            return None
        self.answered_at = time.monotonic()
        return answer

    def _run(self) -> None:
        while True:
            server = self._next_server()
            if server is None:
                return
            found = self._describe_server(server)
            with self._changed:
                self._busy.discard(server)
                self._unasked.discard(server)
                self._due[server] = time.monotonic() + AGAIN_SECONDS
                if found is None:
                    self._wanted.add(server)
                self._changed.notify_all()
            if found is not None and self.fatal is None:
                self._found(found)

    def _find_end(self) -> None:
        """Fail if no server is left: the launcher says that the programs of all data hosts have ended."""
        ended = cluster_facts.read_ended_hosts()
        hosts = {server: server.rpartition(":")[0].strip("[]") for server in self.servers}
        if not all(server in self.silent and host in ended for server, host in hosts.items()):
            return
        with self._changed:
            names = ", ".join(sorted(set(hosts.values())))
            self.fatal = self.fatal or ServersLostError(
                f"no data host serves any more: the program of {names} has ended; let it call serve() on each host that"
                " does not train (`dlc_runtime.cluster().is_training`): serve returns when the training has ended"
            )
            self._changed.notify_all()

    def _compare_samples(self, found: FoundServer) -> ServersDifferError | None:
        """Return an error if another server's samples are others; say it if a few are."""
        with self._changed:
            earlier = self._known.get(found.server)
            self._known[found.server] = found
            others = [other for other in self._known.values() if other.server != found.server]
        if earlier is not None and earlier.prints == found.prints:
            return None
        for other in others:
            likeness = compare(other.prints, found.prints)
            if not likeness.others:
                continue
            which = _name_samples(likeness, int(found.data["samples"]))
            if likeness.is_of_other_data:
                return ServersDifferError(
                    f"the data servers serve different data: {which} differ between {other.host} and {found.host}. They"
                    " need the same samples in the same order: sort what lists files (os.listdir, glob), seed what"
                    " shuffles them, and see that each host has all files. If the samples have to tell of their host,"
                    " set DLC_DATA_COMPARE=0 on the data hosts"
                )
            LOG.warning(
                "data service: %s differ between %s and %s: see that each host has the same files", which, other.host,
                found.host,
            )  # fmt: skip
        return None

    def _next_server(self) -> str | None:
        """Return a server that is to be asked now; None at the end."""
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                ready = [name for name in self._wanted if name not in self._busy]
                due = [name for name in ready if self._due[name] <= now]
                if due:
                    self._wanted.discard(due[0])
                    self._busy.add(due[0])
                    return due[0]
                self._changed.wait(min((self._due[name] for name in ready), default=now + AGAIN_SECONDS) - now)
            return None

    def _describe_server(self, server: str) -> FoundServer | None:
        target = self.servers[server]
        host, _, port = target.rpartition(":")
        try:
            told = control_rpc.call(target, self.token, control_rpc.DESCRIBE)
            address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0][4][0]
            ports = tuple(map(int, told["workers"]))
            prints = list(told.get("prints", ()))
            found = FoundServer(server, str(address), str(told["host"]), ports, dict(told["data"]), prints)
            others = self._compare_samples(found)
        except (DataServiceError, OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, RefusedError) and self.silent.get(server) != str(error):
                LOG.warning("data service: no batch is asked from %s: %s", server, error)
            self.silent[server] = str(error)
            self._find_end()
            return None
        self.answered_at = time.monotonic()
        self.silent.pop(server, None)
        with self._changed:
            if self.data is None:
                self.data, self.host = found.data, found.host
            elif self.data != found.data and self.fatal is None:
                self.fatal = ServersDifferError(
                    f"the data servers serve different data: {self.host} {self.data}, {found.host} {found.data}; they"
                    " need the same files, code and arguments of serve"
                )
            self.fatal = self.fatal or others
            self._changed.notify_all()
        return found


def _name_samples(likeness: Likeness, samples: int) -> str:
    numbers = [choose(samples)[number] for number in likeness.others]
    return f"{len(numbers)} of {likeness.compared} samples ({', '.join(map(str, numbers[:5]))})"


class StallWatch:
    """Asks servers whose answers are late whether the user's function hangs there; a thread, as calls take seconds.

    `late_servers` returns the servers that owe an answer for that many seconds, each with its host's name. `fail` gets
    the error when a function works for longer than `deadline`.
    """

    def __init__(
        self,
        discovery: ServerDiscovery,
        deadline: float,
        late_servers: Callable[[float], Mapping[str, str]],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.discovery, self.deadline, self._late_servers, self._fail = discovery, deadline, late_servers, fail
        self._end = threading.Event()
        self.every = min(LOOK_SECONDS, deadline / 2)
        threading.Thread(target=self._run, name="dlc-data-watch", daemon=True).start()

    def close(self) -> None:
        self._end.set()

    def _run(self) -> None:
        while not self._end.wait(self.every):
            for server, host in self._late_servers(self.every).items():
                self._ask_status(server, host)

    def _ask_status(self, server: str, host: str) -> None:
        """Ask all its workers: one may hang with a batch of another rank, and ours waits behind it."""
        status = self.discovery.status(server, stacks_after=self.deadline)
        for number, told in enumerate((status or {}).get("workers", ())):
            if (told.get("seconds") or 0.0) >= self.deadline:
                self._fail(HangingUserFunctionError(self._describe(host, number, told)))

    def _describe(self, host: str, number: int, told: dict[str, Any]) -> str:
        stack = str(told.get("stack") or "unknown")[-MOST_STACK:]
        batch = f"batch {told['id']} of epoch {told['epoch']} for {told['seconds']:.0f} s"
        return (
            f"the user's function on {host} has worked on {batch}, longer than the deadline of"
            f" {self.deadline:.0f} s (worker {number}, pid {told['pid']}); raise deadline= of"
            f" RemoteLoader if it is merely slow; where it is:\n{stack}"
        )
