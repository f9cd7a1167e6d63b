"""Runs mpirun's one command on another host, over a channel of the job's own.

mpirun calls ssh for that. ssh wants keys, a server, and a user with an entry in /etc/passwd; the hosts of a job know
each other already. A host takes one start, of Open MPI's own daemon alone, from somebody who holds the job's key and
comes from the leader's address; then it listens no more.
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shlex
import socket
import subprocess
import sys
import time

from dlc_channel.channel import PROOF_SECONDS, Channel, NotOfThisJobError, PendingConnections
from launch.base.compat import NamedTuple
from launch.base.errors import CONFIG, UNAVAILABLE, LaunchError, shown
from launch.coordination.sockets import accept_connection, count_seats
from launch.discovery import host_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


# The leader waits so long until another host listens; all are ready when mpirun starts
LISTEN_SECONDS = 60.0
# For the other side to prove itself
HELLO_SECONDS = 30.0
RETRY_SECONDS = 0.1
# Between looks at connections that prove nothing
TICK_SECONDS = 1.0
# What the kernel takes as one argument (MAX_ARG_STRLEN)
LONGEST_COMMAND = (1 << 17) - 1
READ_SIZE = 1 << 16
# Variables of another run of Open MPI, or of Slurm, which it would follow; here the leader's mpirun says what to do.
_NOT_MEANT = re.compile(r"(OMPI|OPAL|ORTE|PMIX|PRTE|SLURM)_")
# Open MPI 4's and 5's
_DAEMON = re.compile(r"([\w.+/-]*/)?(orted|prted)")
# What Open MPI puts around its command for a user whose shell is sh or ksh.
_PROFILE = re.compile(r"\s*\(\s*test ! -r \./\.profile \|\| \. \./\.profile;(.*)\)\s*", re.DOTALL)


class ExecSite(NamedTuple):
    """How the hosts of one MPI job reach each other for the start; a file that only this user can read holds it."""

    secret: str
    port: int
    # As mpirun calls the other ones
    hosts: Sequence[str] = ()
    # Own addresses; empty: all
    listen: Sequence[str] = ()
    # The address that it comes from, if that is known
    leader: str = ""
    # Of the other ones, if they are known
    addresses: Mapping[str, str] = {}

    def open_channel(self, sock: socket.socket, is_server: bool) -> Channel:
        """Return this end of a connection for a start, and for nothing else that the secret serves."""
        return Channel(sock, self.secret.encode(), "exec", is_server)


def read_site(path: str) -> ExecSite:
    """Read the site that a launcher has written down as JSON."""
    with open(path, encoding="utf-8") as file:
        return ExecSite(*json.load(file))


def split_command(words: Sequence[str], hosts: Sequence[str]) -> tuple[str, str]:
    """Return (host, command) of an agent's command line, `[OPTION...] HOST COMMAND...`.

    Open MPI 4 takes the domain off a host's name. Raises LaunchError without a host.
    """
    short = {host.partition(".")[0]: host for host in hosts if not host_addresses.is_address(host)}
    for at, word in enumerate(words):
        if word in hosts or word in short:
            return (word if word in hosts else short[word]), " ".join(words[at + 1 :])
    raise LaunchError(
        CONFIG,
        "mpirun wants to start a host that is not one of the job's",
        expected=f"one of {', '.join(hosts)}",
        found=shown(" ".join(words)),
        remedy="leave --host and --hostfile out of the custom MPI options",
    )


def why_refused(command: str) -> str:
    """Say why this is no command line that starts Open MPI's daemon and nothing else; empty for one that does."""
    if len(command.encode()) > LONGEST_COMMAND:
        return f"it is longer than {LONGEST_COMMAND} bytes"
    if re.search(r"`|\$\(|\n", command):
        return "it runs other commands"
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError as error:
        return str(error)
    if any(word != ";" and word.strip(";&|<>()") == "" for word in words if word):
        return "it runs other commands"
    before, program = _statements(words)
    if any(not _sets_variable(statement) for statement in before):
        return "it runs other commands"
    if not program or not _DAEMON.fullmatch(program[0]):
        return "it does not start Open MPI's daemon"
    return ""


def _statements(words: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Return all statements but the last, and the last one."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == ";":
            found.append([])
        else:
            found[-1].append(word)
    return found[:-1], found[-1]


def _sets_variable(statement: Sequence[str]) -> bool:
    name = r"[A-Za-z_][A-Za-z0-9_]*"
    if len(statement) == 2:
        return statement[0] == "export" and bool(re.fullmatch(name, statement[1]))
    return len(statement) == 1 and bool(re.match(f"{name}=", statement[0]))


# The leader's side


def run_on_host(site: ExecSite, host: str, command: str) -> int:
    """Have the host run the command; its exit code. What it prints goes to stderr. Raises LaunchError."""
    where, deadline = f"{host}, port {site.port}", time.monotonic() + LISTEN_SECONDS
    try:
        while True:
            channel = site.open_channel(_connect(site, host, deadline), is_server=False)
            # The channel sends it only after the other side has proved that it belongs to the job
            channel.send({"kind": "start", "command": command})
            try:
                return _converse(channel)
            except OSError:
                # One side stood still, and the other gave it up: nothing was started yet
                now = time.monotonic()
                if channel.is_open or now >= deadline or now - channel.opened_at < PROOF_SECONDS:
                    raise
            finally:
                channel.socket.close()
    except NotOfThisJobError as error:
        raise LaunchError(
            UNAVAILABLE, f"what answers there is not this job's launcher: {error}", where=where
        ) from error
    except OSError as error:
        found = error.strerror or str(error)
        remedy = "see that host's log, let the hosts reach each other on every port, or set DLC_MPI_PORT"
        raise LaunchError(
            UNAVAILABLE, "Open MPI's daemon cannot be started", where=where, found=found, remedy=remedy
        ) from error


def _connect(site: ExecSite, host: str, deadline: float) -> socket.socket:
    """Connect as soon as the host listens; by its address first, for a resolver may hang. Raises OSError."""
    known = site.addresses.get(host, host)
    while True:
        for address in dict.fromkeys((known, host)):
            try:
                sock = socket.create_connection((address, site.port), timeout=5)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                return sock
            except OSError:
                if address == host and time.monotonic() >= deadline:
                    raise
        time.sleep(RETRY_SECONDS)


def _converse(channel: Channel) -> int:
    poll = select.poll()
    while True:
        poll.register(channel, select.POLLIN | (select.POLLOUT if channel.wants_to_write else 0))
        poll.poll(None if channel.is_open else TICK_SECONDS * 1000)
        channel.flush()
        for message in channel.receive():
            if message["kind"] == "refused":
                raise ConnectionRefusedError(0, f"the command was refused there, {message['why']}")
            if message["kind"] == "output":
                os.write(2, message["text"].encode("latin-1"))
            elif message["kind"] == "end":
                return int(message["code"])
        if not channel.is_open and time.monotonic() - channel.opened_at > HELLO_SECONDS:
            raise TimeoutError(0, f"no answer within {HELLO_SECONDS:g} s")


# The other hosts' side


class ExecServer:
    """A host that waits for its one start, carries what that prints to the leader, and knows how it ended."""

    def __init__(self, site: ExecSite, environ: Mapping[str, str]) -> None:
        """Listen. Raises LaunchError if the port is taken."""
        self._site = site
        self._env = {name: value for name, value in environ.items() if not _NOT_MEANT.match(name)}
        self._listeners = _listen_on_site(site)
        self._pending = PendingConnections(count_seats(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        self._channels: dict[int, Channel] = {}

    def serve(self) -> int:
        """Start what comes, once; come back when that has ended, which a daemon does when it runs: its exit code."""
        channel, command = self._wait()
        for listener in self._listeners:
            listener.close()
        for other in self._channels.values():
            if other is not channel:
                other.socket.close()
        match = _PROFILE.fullmatch(command)
        argv = ["/bin/sh", "-c", match[1] if match else command]
        read_end, write_end = os.pipe()
        process = subprocess.Popen(
            argv,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            start_new_session=True,
        )
        os.close(write_end)
        _carry_output(read_end, channel)
        process.wait()
        _send_now(channel, {"kind": "end", "code": process.returncode})
        channel.socket.close()
        return int(process.returncode)

    def _wait(self) -> tuple[Channel, str]:
        """Wait for the first command that may be started; return it and who sent it."""
        while True:
            poll = select.poll()
            for listener in self._listeners:
                poll.register(listener, select.POLLIN)
            for channel in self._channels.values():
                poll.register(channel, select.POLLIN | (select.POLLOUT if channel.wants_to_write else 0))
            # What came before a time in which this process stood still is read first
            looked = time.monotonic()
            ready = [fd for fd, _ in poll.poll(TICK_SECONDS * 1000)]
            for listener in self._listeners:
                if listener.fileno() in ready:
                    self._admit(listener)
            for channel in [self._channels[fd] for fd in ready if fd in self._channels]:
                command = self._hear(channel)
                if command is not None:
                    return channel, command
            for channel in self._pending.overdue(looked):
                self._drop(channel)

    def _admit(self, listener: socket.socket) -> None:
        accepted = accept_connection(listener)
        if accepted is None:
            # No descriptor is left
            if greedy := self._pending.to_evict():
                self._drop(greedy)
            return
        sock, address = accepted
        if not _may_come_from(self._site.leader, address):
            sock.close()
            return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        channel = self._site.open_channel(sock, is_server=True)
        self._channels[channel.fileno()] = channel
        surplus = self._pending.add(channel, address)
        if surplus:
            self._drop(surplus)

    def _hear(self, channel: Channel) -> str | None:
        """Return the command that this connection wants started; None for nothing, or for what may not be."""
        try:
            channel.flush()
            for message in channel.receive():
                self._pending.discard(channel)
                command = _answer_message(channel, message)
                if command is not None:
                    return command
            channel.flush()
        except (OSError, NotOfThisJobError):
            self._drop(channel)
        return None

    def _drop(self, channel: Channel) -> None:
        self._pending.discard(channel)
        self._channels.pop(channel.fileno(), None)
        channel.socket.close()


def _may_come_from(leader: str, address: str) -> bool:
    """Return whether the leader, known by one address, may come from this one: it may have IPv6 as well."""
    return not leader or address == leader or (":" in address) != (":" in leader)


def _carry_output(output: int, channel: Channel) -> None:
    """Carry all that the command prints. A leader that is gone changes nothing here: the group knows of it."""
    is_heard = True
    while data := os.read(output, READ_SIZE):
        is_heard = is_heard and _send_now(channel, {"kind": "output", "text": data.decode("latin-1")})
    os.close(output)


def _answer_message(channel: Channel, message: Mapping[str, Any]) -> str | None:
    command = str(message.get("command", ""))
    why = why_refused(_PROFILE.sub(r"\1", command))
    if not why:
        return command
    print(f"dlc: a command was refused, {why}: {shown(command)}", file=sys.stderr, flush=True)
    channel.send({"kind": "refused", "why": why})
    return None


def _send_now(channel: Channel, message: dict[str, Any]) -> bool:
    """Send, and wait until it is on its way; whether it is."""
    channel.send(message)
    channel.socket.setblocking(True)
    try:
        channel.flush()
    except OSError:
        return False
    return True


def _listen_on_site(site: ExecSite) -> list[socket.socket]:
    opened: list[socket.socket] = []
    try:
        for address in site.listen or [""]:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            opened.append(socket.create_server((address, site.port), family=family))
    except OSError as error:
        for sock in opened:
            sock.close()
        raise LaunchError(
            UNAVAILABLE,
            f"cannot be opened: {os.strerror(error.errno or 0)}",
            where=f"port {site.port}, where mpirun starts this host",
            remedy="set DLC_MPI_PORT to a free port, the same on every host",
        ) from error
    return opened
