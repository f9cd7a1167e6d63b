"""One authenticated connection between hosts, how few unproved ones are kept, and the job's key.

Each side opens with `dlc-group/1 NONCE`. The session key is HMAC(job key, server nonce + client nonce); each line
after that is `HMAC(session key, direction + counter + payload) payload`. A line that was not made with the job's key,
or is played again, in the other direction or in another connection, is refused.

The job's key is held by every host of one job, and by no other process by chance. With DLC_JOB_TOKEN set it is as
strong as the token. Without it the key comes from the job's ARN or name, which keeps out port scans, health checks and
other jobs, but not somebody who knows the name and is let into the job's network. Without either it is a hash of the
hosts' names, which anybody can guess.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
import zlib

from launch.base.errors import CONFIG, LaunchError
from launch.base.settings import JOB_TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Mapping
    from typing import Any


PROTOCOL = b"dlc-group/1"
# Bytes; of a line from one who holds the key
LONGEST_LINE = 1 << 28
# Bytes; of a line from somebody who has not proved anything yet
LONGEST_UNPROVED_LINE = 1 << 16
WRONG_TOKEN = "it does not hold the job's token"  # noqa: S105 - a message


class NotOfThisJobError(Exception):
    """The other side does not hold the job's key, or speaks something else altogether."""


class Channel:
    """One end of a connection. The socket is non-blocking; `flush` and `receive` do what can be done now."""

    def __init__(self, sock: socket.socket, key: bytes, is_server: bool) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.heard_at = self.opened_at = time.monotonic()
        # A line with a right MAC came
        self.authentic = False
        self._key = key
        self._is_server = is_server
        self._nonce = os.urandom(16).hex().encode()
        self._session = b""
        self._sent = self._received = 0
        self._incoming = b""
        # For the session key
        self._waiting: list[dict[str, Any]] = []
        self._outgoing = bytearray(PROTOCOL + b" " + self._nonce + b"\n")
        # The host that a line without a right MAC says it comes from
        self.claims = ""

    def fileno(self) -> int:
        """Return the descriptor, for poll()."""
        return self.socket.fileno()

    @property
    def has_output(self) -> bool:
        """Return whether `flush` has something to send."""
        return bool(self._outgoing)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message."""
        if not self._session:
            self._waiting.append(message)
            return
        payload = json.dumps(message, separators=(",", ":")).encode()
        self._outgoing += self._mac(self._is_server, self._sent, payload) + b" " + payload + b"\n"
        self._sent += 1

    def flush(self) -> None:
        """Send what the connection takes. Raises OSError when it is broken."""
        while self._outgoing:
            try:
                sent = self.socket.send(self._outgoing)
            except BlockingIOError:
                return
            del self._outgoing[:sent]

    def receive(self) -> list[dict[str, Any]]:
        """Messages that have come. Raises OSError when the connection is broken or closed, NotOfThisJobError."""
        messages = []
        for line in self._lines():
            if not self._session:
                self._greeted(line)
            else:
                messages.append(self._verified(line))
        return messages

    def _lines(self) -> list[bytes]:
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionResetError("connection closed")
        *lines, self._incoming = (self._incoming + data).split(b"\n")
        if len(self._incoming) > (LONGEST_LINE if self.authentic else LONGEST_UNPROVED_LINE):
            raise NotOfThisJobError("a line that does not end")
        return lines

    def _greeted(self, line: bytes) -> None:
        protocol, _, nonce = line.partition(b" ")
        if protocol != PROTOCOL or len(line) > 128:
            raise NotOfThisJobError(f"it says {line[:40]!r}, expected {PROTOCOL.decode()}")
        nonces = self._nonce + nonce if self._is_server else nonce + self._nonce
        self._session = hmac.digest(self._key, nonces, "sha256")
        for message in self._waiting:
            self.send(message)
        self._waiting.clear()

    def _verified(self, line: bytes) -> dict[str, Any]:
        mac, _, payload = line.partition(b" ")
        if not hmac.compare_digest(mac, self._mac(not self._is_server, self._received, payload)):
            self.claims = _host_claimed_by(payload)
            raise NotOfThisJobError(WRONG_TOKEN)
        self._received += 1
        self.authentic = True
        self.heard_at = time.monotonic()
        message: dict[str, Any] = json.loads(payload)
        return message

    def _mac(self, from_server: bool, counter: int, payload: bytes) -> bytes:
        text = b"%s %d %s" % (b"server" if from_server else b"client", counter, payload)
        return hmac.digest(self._session, text, "sha256").hex().encode()


def pack_json(value: Any) -> str:
    """Make a value small that is sent to every host: what a thousand hosts say of themselves differs little."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 1)).decode()


def unpack_json(text: str) -> Any:
    """Undo `pack_json`, for a line whose MAC was right."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _host_claimed_by(payload: bytes) -> str:
    try:
        message = json.loads(payload)
        return str(message["host"])[:253] if message["kind"] == "join" else ""
    except Exception:  # whatever a stranger has made of it
        return ""


# Seconds to prove it
PROOF_BOUND = 10.0
# At a time; more where more hosts may come at once
FEWEST_SEATS = 256
# Of a host's probe listener, at which a few others try
PROBE_SEATS = 64
# Descriptors for all else that a launcher opens: pipes of its processes, probes, files, callers of its probe listener.
RESERVE = 128 + PROBE_SEATS
# If there is no limit
MANY_FILES = 1 << 20
# At most one in so many, of few
RESERVED_SHARE = 3


def count_seats(hosts: int, files: int) -> int:
    """Return how many strangers the coordinator seats beside `hosts` hosts where a process may open `files` files.

    A negative number of files is any. Raises LaunchError (CONFIG) where they do not even do for the hosts.
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


class PendingConnections:
    """When all seats are taken, the address that holds most of them loses its oldest: nobody can keep others out."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        # Oldest first
        self._addresses: dict[Channel, str] = {}

    def add(self, channel: Channel, address: str) -> Channel | None:
        """Seat a newcomer; the connection to close for it, if any."""
        self._addresses[channel] = address
        return self.to_evict() if len(self._addresses) > self._seats else None

    def discard(self, channel: Channel) -> None:
        """Give up the seat of a connection that proved itself, or is gone."""
        self._addresses.pop(channel, None)

    def to_evict(self) -> Channel | None:
        """Return the oldest connection of the address that has most."""
        # By hand: collections.Counter imports a module when it is first asked, and then no descriptor may be left.
        held: dict[str, int] = {}
        for address in self._addresses.values():
            held[address] = held.get(address, 0) + 1
        greedy = max(held, key=lambda address: held[address], default="")
        return next((channel for channel, address in self._addresses.items() if address == greedy), None)

    def overdue(self, now: float) -> list[Channel]:
        """Return the connections whose time to prove themselves is over."""
        return [channel for channel in self._addresses if now - channel.opened_at > PROOF_BOUND]


KEY_SOURCES = (JOB_TOKEN, "TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME")
SAME_TOKEN = "give every host the same DLC_JOB_TOKEN or job name"  # noqa: S105 - a remedy
KEY_REMEDY = "set DLC_JOB_TOKEN to the same random text on every host, such as the output of `openssl rand -hex 16`"


def job_key(environ: Mapping[str, str], hosts: Iterable[str]) -> bytes:
    """32 bytes, equal on every host of the job."""
    for source in KEY_SOURCES:
        if environ.get(source):
            return _digest_of(source, environ[source])
    return _digest_of("hosts", *sorted(hosts))


def is_guessable_key(environ: Mapping[str, str]) -> bool:
    """Return whether the key comes from the hosts' names alone."""
    return not any(environ.get(source) for source in KEY_SOURCES)


def purpose_key(key: bytes, purpose: str) -> str:
    """Make a secret from the job's key, in hexadecimal: who learns it cannot tell the key."""
    return hmac.digest(key, purpose.encode(), "sha256").hex()


def _digest_of(*parts: str) -> bytes:
    digest = hashlib.sha256(b"dlc group 1")
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        # The length keeps ("a", "bc") apart from ("ab", "c")
        digest.update(b"%d:%s" % (len(encoded), encoded))
    return digest.digest()


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
