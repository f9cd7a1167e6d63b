"""Sockets: listening on this host's addresses alone, seats for strangers, where others probe, the way to the leader."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time

from dlc_channel.channel import FEWEST_SEATS, Channel, NotOfThisJobError, PendingConnections
from launch.base.errors import CONFIG, UNAVAILABLE, LaunchError, one_line
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


# Every host of the job may come at once
BACKLOG = 1024
# What all hosts say of themselves is one line
MOST_LINE_BYTES = 1 << 28
SAME_TOKEN = "give every host the same DLC_JOB_TOKEN or job name"  # noqa: S105 - a remedy


def listen_for_group(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Open a socket for each address; for every address of this machine if none is given.

    Raises LaunchError when the port is taken.
    """
    if not addresses:
        print(f"dlc: the job's network interface has no address; listening on all, port {port}", file=sys.stderr)
    opened: list[socket.socket] = []
    try:
        for address in addresses or [""]:
            opened.append(open_listener(address, port))
    except OSError as error:
        for sock in opened:
            sock.close()
        raise LaunchError(
            UNAVAILABLE,
            f"the group's port cannot be opened: {os.strerror(error.errno or 0)}",
            where=f"port {port}",
            remedy="set DLC_GROUP_PORT to a free port, the same on every host",
        ) from error
    return opened


def open_listener(address: str, port: int) -> socket.socket:
    """Open a listening socket; on every address of this machine if `address` is empty. Raises OSError."""
    if not address and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=BACKLOG)


def require_free(port: int, switch: str, who: str) -> None:
    """Raise LaunchError if another program listens at a port at which `who` meet; `switch` sets it."""
    try:
        open_listener("", port).close()
    except OSError as error:
        raise LaunchError(
            UNAVAILABLE,
            f"{who} cannot meet here: {os.strerror(error.errno or 0)}",
            where=f"port {port}",
            remedy=f"set {switch} to a free port, the same on every host",
        ) from error


def accept_connection(listener: socket.socket) -> tuple[socket.socket, str] | None:
    """Return the next connection and where it comes from; None if it is gone, or no descriptor is left."""
    try:
        sock, address = listener.accept()
    except OSError:
        return None
    return sock, host_addresses.plain_address(str(address[0]))


def group_channel(sock: socket.socket, key: bytes, is_server: bool, host: str = "") -> Channel:
    """Return one end of a host's connection to the coordinator."""
    return Channel(sock, key, "group", is_server, host, MOST_LINE_BYTES)


# Of a host's probe listener, at which a few others try
PROBE_SEATS = 64
# Descriptors for all else that a launcher opens: pipes of its processes, probes, files, callers of its probe listener.
RESERVE = 128 + PROBE_SEATS
# If there is no limit
MANY_FILES = 1 << 20
# At most one in so many, of few
RESERVED_SHARE = 3


def count_seats(hosts: int, files: int) -> int:
    """Return how many strangers the coordinator seats beside `hosts` hosts if a process may open `files` files.

    A negative number of files is any. Raises LaunchError (CONFIG) if they do not even do for the hosts.
    """
    files = files if files >= 0 else MANY_FILES
    room = files - min(RESERVE, files // RESERVED_SHARE) - hosts
    if room < 1:
        raise LaunchError(
            CONFIG,
            f"the first host may open {files} files, too few for a connection from each of {hosts} hosts",
            where="ulimit -n",
            expected=f"{RESERVE + 2 * hosts} or more",
            remedy="start its container with --ulimit nofile=65536",
        )
    return min(max(FEWEST_SEATS, 2 * hosts), room)


class UnprovedClaims:
    """Hosts of the job that strangers say they are, without a proof: a host with another token looks like that."""

    def __init__(self) -> None:
        # By host
        self._count: dict[str, int] = {}
        # The address of the last one
        self._peer: dict[str, str] = {}

    def add(self, host: str, peer: str) -> bool:
        """Count one more; whether it is the host's first."""
        self._count[host] = self._count.get(host, 0) + 1
        self._peer[host] = peer
        return self._count[host] == 1

    def describe(self, host: str) -> str:
        """Say who claims to be this host; empty if nobody does without a proof."""
        count = self._count.get(host, 0)
        times = "once" if count == 1 else f"{count} times"
        return f"{host} was claimed {times}, last from {self._peer[host]}, without the job's token" if count else ""


# Of a wrong answer, after which its end changes nothing
SURE_AFTER_SECONDS = 5.0
# Of the same trouble, if waiting does not mend it
HOPELESS_AFTER_SECONDS = 12.0


def source_address(own: str) -> tuple[str, int] | None:
    """Return the address to connect from if the host is known by it: so the others can tell it from others."""
    return (own, 0) if host_addresses.is_address(own) and host_addresses.is_own_address(own) else None


class CoordinatorAddress:
    """How the leader is reached. It may come minutes later; a name that went away or a wrong answer is final."""

    def __init__(self, leader: str, port: int, heartbeat: float = 60.0) -> None:
        self.leader, self.port, self._heartbeat = leader, port, heartbeat
        # What the last attempt met
        self.trouble = "no answer yet"
        # That worked: a host that was met needs no name any more
        self._address = ""
        # A name alone is no host: an engine gives it before the container has a network
        self._was_there = False
        self._bad_since = self._bad_last = 0.0
        # Of trouble: "gone", "silent", "wrong"
        self._bad = self._kind = ""
        # For what `why_unreachable` says
        self.remedy = ""

    @property
    def why_unreachable(self) -> str:
        """Say why waiting for the leader has no use; empty while it may have."""
        # A resolver or a coordinator that stands still since then says nothing more
        lasted = self._bad_last - self._bad_since
        if self._kind == "wrong" and lasted >= SURE_AFTER_SECONDS:
            lasted = time.monotonic() - self._bad_since
        enough = max(HOPELESS_AFTER_SECONDS, self._heartbeat) if self._kind == "silent" else HOPELESS_AFTER_SECONDS
        return self._bad if lasted >= enough else ""

    def connect(self, own: str, timeout: float) -> socket.socket:
        """Connect to the leader's port. Raises OSError."""
        address = self._address or self._resolve()
        try:
            sock = socket.create_connection((address, self.port), timeout, source_address=source_address(own))
        except ConnectionError:  # refused, by a host that is there
            self._was_there = True
            raise
        self._was_there = True
        return sock

    def _resolve(self) -> str:
        found = host_addresses.resolve(self.leader)
        if not found and self._was_there and _is_unknown(self.leader):
            why = f"{self.leader} ended before the hosts had met: its name is gone"
            self._note_bad("gone", why, f"see the log of {self.leader}, which says why it ended")
        elif self._kind == "gone":
            self._bad = ""
        if not found:
            raise OSError(f"{self.leader} does not resolve")
        return found[0] if len(found) == 1 else self.leader

    def note_success(self, address: str) -> None:
        """Use this address from now on: the coordinator proved to be there."""
        self._bad, self._address = "", address

    def note_failure(self, error: Exception, how: str, answered: bool) -> None:
        """Note what went wrong; `answered`: somebody took the connection who has not proved to be the coordinator."""
        self.trouble = one_line(how)
        where = f"{self.leader}, port {self.port}"
        other = f"{SAME_TOKEN}, or set DLC_GROUP_PORT to another port than {self.port}"
        if answered and isinstance(error, NotOfThisJobError):
            self._note_bad("wrong", f"what answers on {where} is not this job's launcher: {self.trouble}", other)
        elif answered:
            why = f"what answers on {where} does not say that it is this job's launcher: {self.trouble}"
            self._note_bad("silent" if isinstance(error, TimeoutError) else "wrong", why, other)
        elif "does not resolve" in how:
            return
        elif self._kind == "silent" or self._bad_last - self._bad_since < SURE_AFTER_SECONDS:
            # It was there for a moment, and is gone: what ran before this job, or a leader that ended
            self._bad = ""

    def _note_bad(self, kind: str, text: str, remedy: str) -> None:
        self._bad_last = time.monotonic()
        if not self._bad or kind != self._kind:
            self._bad_since = self._bad_last
        self._kind, self._bad, self.remedy = kind, text, remedy


def _is_unknown(host: str) -> bool:
    """Return whether the resolver says that there is no such name; one without an answer, or an address, does not."""
    try:
        return not socket.getaddrinfo(host, None)
    except socket.gaierror as error:
        return error.errno == socket.EAI_NONAME


# Between looks for callers whose time is over
OVERDUE_INTERVAL_SECONDS = 1.0
# A port that is free on one address may be taken on the next
OPEN_TRIES = 5
CLOSE_SECONDS = 5.0


class ProbeListener(threading.Thread):
    """Proves to whoever calls that this host of the job is here, and whom it follows; takes nothing else."""

    def __init__(self, host: str, listeners: Sequence[socket.socket], key: bytes, leader: str = "") -> None:
        super().__init__(daemon=True, name="group door")
        self.port: int = listeners[0].getsockname()[1]
        self._told = {"host": host, "leader": leader}
        # The last caller that said whom it follows
        self.heard = {"host": "", "leader": ""}
        self._key = key
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._callers: dict[int, Channel] = {}
        self._pending = PendingConnections(PROBE_SEATS)
        self._is_closing = False
        self._wake_read, self._wake_write = os.pipe()
        self._poll = select.poll()
        for listener in listeners:
            listener.setblocking(False)
        for fd in (*self._listeners, self._wake_read):
            self._poll.register(fd, select.POLLIN)

    def close(self) -> None:
        """Answer nobody any more, and free the port; once is enough."""
        if self._is_closing:
            return
        self._is_closing = True
        os.write(self._wake_write, b"x")
        self.join(CLOSE_SECONDS)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def run(self) -> None:
        """Run the thread."""
        try:
            while not self._is_closing:
                for fd, _ in self._poll.poll(OVERDUE_INTERVAL_SECONDS * 1000 if self._callers else None):
                    self._serve(fd)
                for caller in self._pending.overdue(time.monotonic()):
                    self._see_off(caller)
        finally:
            for caller in self._callers.values():
                caller.socket.close()
            for listener in self._listeners.values():
                listener.close()

    def _serve(self, fd: int) -> None:
        if fd in self._listeners:
            self._let_in(self._listeners[fd])
        elif fd in self._callers:
            caller = self._callers[fd]
            try:
                for said in caller.receive():
                    self.heard = said
                caller.flush()
            except (NotOfThisJobError, OSError, ValueError, RecursionError):  # nonsense, or it has its answer
                self._see_off(caller)

    def _let_in(self, listener: socket.socket) -> None:
        accepted = accept_connection(listener)
        # One who stays too long makes room
        if accepted is None:
            self._see_off(self._pending.to_evict())
            return
        sock, peer = accepted
        caller = Channel(sock, self._key, "probe", is_server=True)
        caller.send(self._told)
        self._callers[sock.fileno()] = caller
        self._poll.register(caller, select.POLLIN)
        self._see_off(self._pending.add(caller, peer))
        # Broken already: the next poll() says so
        with contextlib.suppress(OSError):
            caller.flush()

    def _see_off(self, caller: Channel | None) -> None:
        if caller is not None and self._callers.pop(caller.fileno(), None) is not None:
            self._pending.discard(caller)
            self._poll.unregister(caller)
            caller.socket.close()


def open_probe_listener(
    host: str, addresses: Sequence[str], port: int, key: bytes, leader: str = ""
) -> ProbeListener | None:
    """Open the listener, at a free port if `port` is 0 or taken; None if none can be opened."""
    for wanted in (port, *[0] * OPEN_TRIES):
        with contextlib.suppress(OSError):
            listeners = _open_listeners(addresses_to_listen_on(host, addresses), wanted)
            listener = ProbeListener(host, listeners, key, leader)
            listener.start()
            return listener
    return None


def ask_listener(address: str, port: int, key: bytes, own: str, timeout: float, follows: str = "") -> dict[str, str]:
    """Return what a probe listener tells: its host, and whom it follows. Raises OSError, NotOfThisJobError.

    It hears whom the own host follows, if `follows` says so.
    """
    deadline = time.monotonic() + timeout
    with socket.create_connection((address, port), timeout, source_address=source_address(own)) as sock:
        channel = Channel(sock, key, "probe", is_server=False, host=own)
        if follows:
            channel.send({"host": own, "leader": follows})
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        channel.flush()
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            messages = channel.receive()
            channel.flush()
            if messages:
                return dict(messages[0])
    raise TimeoutError("it takes the connection and says nothing")


def addresses_to_listen_on(host: str, addresses: Sequence[str]) -> Sequence[str]:
    """Return where to listen: everywhere if all known addresses mean this machine alone (127.0.1.1)."""
    only_here = all(address == "::1" or address.startswith("127.") for address in addresses)
    return ("",) if only_here and not host_addresses.is_address(host) else addresses or ("",)


def _open_listeners(addresses: Sequence[str], port: int) -> list[socket.socket]:
    opened: list[socket.socket] = []
    try:
        for address in addresses:
            opened.append(open_listener(address, port))
            port = port or opened[0].getsockname()[1]
    except OSError:
        for sock in opened:
            sock.close()
        raise
    return opened
