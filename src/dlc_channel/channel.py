"""One authenticated connection, and how few unproved ones are kept. Never blocks, starts no thread, logs nothing.

    server: dlc/2 PURPOSE NONCE        client: dlc/2 PURPOSE NONCE HOST PROOF        server: PROOF

Both prove that they hold the key for the purpose, and mean this handshake. Then each line is `MAC payload`: JSON, with
a MAC by a key for this connection and direction over a counter and the payload. So a line that was changed, or comes
again, elsewhere, in another order or back to its sender, is refused. The client says nothing of worth before the server
has proved itself. docs/channel.md says what is promised to whom.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import resource
import time

from dlc_channel import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Socket(Protocol):
        """What a channel needs of a socket, which may be one inside TLS."""

        def fileno(self) -> int: ...
        def setblocking(self, flag: bool, /) -> None: ...
        def recv(self, size: int, /) -> bytes: ...
        def send(self, data: bytearray, /) -> int: ...


PROTOCOL = b"dlc/2"
# Of a line from somebody who has not proved anything yet
MOST_HANDSHAKE_BYTES = 512
# Characters of the name that a client gives itself
MOST_HOST = 253
READ_BYTES = 1 << 16
# In which a connection has to prove that it is of this job
PROOF_SECONDS = 10.0
# For unproved connections at a time; more if more hosts may come at once
FEWEST_SEATS = 256
REFUSED = b"refused"


class NotOfThisJobError(Exception):
    """The other side does not hold the job's key, or speaks something else altogether."""


class WrongProofError(NotOfThisJobError):
    """It speaks as a host of the job does, and does not hold its key."""

    def __init__(self) -> None:
        super().__init__("it does not hold the job's token")


class Channel:
    """One end of a connection. `flush` and `receive` do what can be done now.

    Both raise OSError when the connection is broken or closed, `receive` also NotOfThisJobError.
    """

    def __init__(
        self, sock: Socket, key: bytes, purpose: str, is_server: bool, host: str = "", most_line: int = 1 << 20
    ) -> None:
        """Take what a client calls itself, and how long a line may be once the other side has proved itself."""
        sock.setblocking(False)
        self.socket: Any = sock
        self.heard_at = self.opened_at = time.monotonic()
        # Both sides have proved themselves, as far as this one can know
        self.is_open = False
        # The host that a client without a right proof says it is
        self.claims = ""
        self._key = keys.purpose_key(key, purpose)
        self._is_server, self._host, self._most_line = is_server, _as_word(host), most_line
        self._greeting = b"%s %s " % (PROTOCOL, purpose.encode())
        self._nonce = keys.new_nonce().hex().encode()
        # All that both sides said in the handshake; empty on a client that was not greeted yet
        self._transcript: tuple[bytes, ...] = ()
        self._send_key = self._receive_key = b""
        self._sent = self._received = 0
        self._incoming = bytearray()
        self._outgoing = bytearray(self._greeting + self._nonce + b"\n" if is_server else b"")
        # Messages for which the connection is not open yet
        self._waiting: list[Any] = []

    def fileno(self) -> int:
        """Return the descriptor, for poll()."""
        return int(self.socket.fileno())

    @property
    def wants_to_write(self) -> bool:
        """Return whether `flush` has something to send, and a TLS below is ready for it."""
        return bool(self._outgoing) and getattr(self.socket, "is_ready", True)

    def send(self, message: Any) -> None:
        """Queue a message."""
        if not self.is_open:
            self._waiting.append(message)
            return
        payload = json.dumps(message, separators=(",", ":")).encode()
        self._outgoing += b"%s %s\n" % (_mac(self._send_key, self._sent, payload), payload)
        self._sent += 1

    def flush(self) -> None:
        """Send what the connection takes."""
        try:
            while self._outgoing:
                del self._outgoing[: self.socket.send(self._outgoing)]
        except (BlockingIOError, InterruptedError):
            return

    def receive(self) -> list[Any]:
        """Return the messages that have come; answer what belongs to the handshake."""
        try:
            data = self.socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ConnectionResetError("connection closed")
        # No line ends before it
        begin = len(self._incoming)
        self._incoming += data
        if not self.is_open:
            begin = 0
            self._shake_hands()
            self.flush()
        return self._take_messages(begin) if self.is_open else []

    def detach(self) -> bytes:
        """End the channel after its handshake and leave the socket to another protocol; return what is still to send.

        Raises NotOfThisJobError if the other side has said more: in the handshake it waits for this one.
        """
        if self._incoming:
            raise NotOfThisJobError("it says more than a handshake")
        unsent = bytes(self._outgoing)
        self._outgoing.clear()
        return unsent

    # The handshake

    def _shake_hands(self) -> None:
        while not self.is_open:
            end = self._incoming.find(b"\n", 0, MOST_HANDSHAKE_BYTES)
            self._require_greeting()
            if end < 0 and len(self._incoming) >= MOST_HANDSHAKE_BYTES:
                raise NotOfThisJobError("a line that does not end")
            if end < 0:
                return
            line = bytes(self._incoming[:end])
            del self._incoming[: end + 1]
            if self._is_server:
                self._welcome(line)
            elif not self._transcript:
                self._answer(line)
            else:
                self._accept(line)

    def _require_greeting(self) -> None:
        """Refuse what begins otherwise as soon as it does: it may never end its line."""
        begin = bytes(self._incoming[: len(self._greeting)])
        if (self._is_server or not self._transcript) and not self._greeting.startswith(begin):
            raise NotOfThisJobError(f"it says {bytes(self._incoming[:40])!r}, expected {self._greeting.decode()}NONCE")

    def _welcome(self, line: bytes) -> None:
        """Check the client's proof and give the server's."""
        words = line[len(self._greeting) :].split(b" ")
        if len(words) != 3 or len(words[0]) != len(self._nonce):
            raise NotOfThisJobError(f"it says {line[:40]!r}, expected a nonce, a host and a proof")
        nonce, host, given = words
        self._transcript = (self._greeting, self._nonce, nonce, host)
        if not hmac.compare_digest(given, self._prove(b"client")):
            self.claims = host.decode("ascii", "replace")
            self._outgoing += REFUSED + b"\n"
            with contextlib.suppress(OSError):
                self.flush()
            raise WrongProofError
        self._outgoing += self._prove(b"server") + b"\n"
        self._open()

    def _answer(self, line: bytes) -> None:
        """Give the client's proof to whoever has greeted: it is of no use to anybody else."""
        nonce = line[len(self._greeting) :]
        if len(nonce) != len(self._nonce):
            raise NotOfThisJobError(f"it says {line[:40]!r}, expected a nonce")
        self._transcript = (self._greeting, nonce, self._nonce, self._host)
        self._outgoing += b"%s%s %s %s\n" % (self._greeting, self._nonce, self._host, self._prove(b"client"))

    def _accept(self, line: bytes) -> None:
        """Check the server's proof."""
        if not hmac.compare_digest(line, self._prove(b"server")):
            raise WrongProofError
        self._open()

    def _open(self) -> None:
        both = self._derive(b"client to server"), self._derive(b"server to client")
        self._receive_key, self._send_key = both if self._is_server else both[::-1]
        self.is_open = True
        self.heard_at = time.monotonic()
        for message in self._waiting:
            self.send(message)
        self._waiting.clear()

    def _prove(self, side: bytes) -> bytes:
        return self._derive(side).hex().encode()

    def _derive(self, label: bytes) -> bytes:
        return keys.proof(self._key, label, *self._transcript)

    # Lines

    def _take_messages(self, begin: int) -> list[Any]:
        messages = []
        end = self._incoming.find(b"\n", begin)
        while end >= 0:
            line = bytes(self._incoming[:end])
            del self._incoming[: end + 1]
            messages.append(self._verify(line))
            end = self._incoming.find(b"\n")
        if len(self._incoming) > self._most_line:
            raise NotOfThisJobError(f"a line of more than {self._most_line} bytes")
        return messages

    def _verify(self, line: bytes) -> Any:
        mac, _, payload = line.partition(b" ")
        if not hmac.compare_digest(mac, _mac(self._receive_key, self._received, payload)):
            raise NotOfThisJobError("a line that was changed on its way, or does not belong here")
        self._received += 1
        self.heard_at = time.monotonic()
        try:
            return json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise NotOfThisJobError("a line that is no JSON") from error


def _mac(key: bytes, counter: int, payload: bytes) -> bytes:
    return hmac.digest(key, counter.to_bytes(8, "big") + payload, "sha256").hex().encode()


def _as_word(host: str) -> bytes:
    """Return a host's name as a word of a line, whatever is in it."""
    return ascii(host)[1:-1].replace(" ", "_")[:MOST_HOST].encode() or b"-"


def limit_seats(wanted: int = FEWEST_SEATS) -> int:
    """Return how many to seat beside code that opens files too: a quarter of what the process may open at most."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if files < 0 else max(1, min(wanted, files // 4))


class PendingConnections:
    """When all seats are taken, the address that holds most of them loses its oldest: nobody can keep others out."""

    def __init__(self, seats: int | None = None) -> None:
        self._seats = limit_seats() if seats is None else seats
        # Oldest first
        self._addresses: dict[Channel, str] = {}

    def add(self, channel: Channel, address: str) -> Channel | None:
        """Seat a newcomer; return the connection to close for it, if any."""
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

    def excuse(self, seconds: float) -> None:
        """Give everybody more time: for so long nobody was listened to."""
        for channel in self._addresses:
            channel.opened_at += seconds

    def overdue(self, now: float) -> list[Channel]:
        """Return the connections whose time to prove themselves is over."""
        return [channel for channel in self._addresses if now - channel.opened_at > PROOF_SECONDS]
