"""One authenticated connection of the group: lines of JSON, each with a MAC that depends on both sides' nonces.

Each side opens with `dlc-group/1 NONCE`. The session key is HMAC(job key, server nonce + client nonce); each line after
that is `HMAC(session key, direction + counter + payload) payload`. A line that was not made with the job's key, or is
played again, in the other direction or in another connection, is refused.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

PROTOCOL = b"dlc-group/1"
NONCE_SIZE = 16
LONGEST_LINE = 1 << 28  # bytes; of a line from one who holds the key
LONGEST_STRANGER = 1 << 16  # bytes; of a line from somebody who has not proved anything yet
LONGEST_GREETING = 128
WRONG_TOKEN = "it does not hold the job's token"  # noqa: S105 - a message


class NotOfThisJobError(Exception):
    """The other side does not hold the job's key, or speaks something else altogether."""


class Channel:
    """One end of a connection. The socket is non-blocking; `flush` and `receive` do what can be done now."""

    def __init__(self, sock: socket.socket, key: bytes, is_server: bool) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.heard_at = self.opened_at = time.monotonic()
        self.authentic = False  # a line with a right MAC came
        self._key = key
        self._is_server = is_server
        self._nonce = os.urandom(NONCE_SIZE).hex().encode()
        self._session = b""
        self._sent = self._received = 0
        self._incoming = b""
        self._waiting: list[dict[str, Any]] = []  # for the session key
        self._outgoing = bytearray(PROTOCOL + b" " + self._nonce + b"\n")
        self.claims = ""  # the host that a line without a right MAC says it comes from

    def fileno(self) -> int:
        """For poll()."""
        return self.socket.fileno()

    @property
    def has_output(self) -> bool:
        """Whether `flush` has something to send."""
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
        if len(self._incoming) > (LONGEST_LINE if self.authentic else LONGEST_STRANGER):
            raise NotOfThisJobError("a line that does not end")
        return lines

    def _greeted(self, line: bytes) -> None:
        protocol, _, nonce = line.partition(b" ")
        if protocol != PROTOCOL or len(line) > LONGEST_GREETING:
            raise NotOfThisJobError(f"it says {line[:40]!r}, expected {PROTOCOL.decode()}")
        nonces = self._nonce + nonce if self._is_server else nonce + self._nonce
        self._session = hmac.digest(self._key, nonces, "sha256")
        for message in self._waiting:
            self.send(message)
        self._waiting.clear()

    def _verified(self, line: bytes) -> dict[str, Any]:
        mac, _, payload = line.partition(b" ")
        if not hmac.compare_digest(mac, self._mac(not self._is_server, self._received, payload)):
            self.claims = _claimed_host(payload)
            raise NotOfThisJobError(WRONG_TOKEN)
        self._received += 1
        self.authentic = True
        self.heard_at = time.monotonic()
        message: dict[str, Any] = json.loads(payload)
        return message

    def _mac(self, from_server: bool, counter: int, payload: bytes) -> bytes:
        text = b"%s %d %s" % (b"server" if from_server else b"client", counter, payload)
        return hmac.digest(self._session, text, "sha256").hex().encode()


def pack(value: Any) -> str:
    """A value that is sent to every host, small: what a thousand hosts say of themselves differs little."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 1)).decode()


def unpack(text: str) -> Any:
    """The other way round, for a line whose MAC was right."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def _claimed_host(payload: bytes) -> str:
    try:
        message = json.loads(payload)
        return str(message["host"])[:253] if message["kind"] == "join" else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
