"""The job's token, the handshake in which both sides prove that they hold it, and lines of JSON after it.

    server: MAGIC nonce          consumer: MAGIC nonce proof          server: proof

The token is as strong as DLC_DATA_TOKEN, which the launcher makes from the job's key. Without it the token comes from
the job's ARN or name: that keeps out port scans and other jobs, but not somebody who knows the name and is let into
the job's network. A host alone makes it from its names, which only loopback protects.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import ProtocolError, RefusedError
from dlc_runtime.dataservice.wire import tls

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

SOURCES = ("DLC_DATA_TOKEN", "TRAINING_JOB_ARN", "TRAINING_JOB_NAME", "SAGEMAKER_JOB_NAME", "SM_HOSTS")
NONCE_BYTES = 32
PROOF_BYTES = 32
# The line end tells text protocols from ours at once.
MAGIC = b"dlc-data-1\r\n"
HELLO_BYTES = len(MAGIC) + NONCE_BYTES
ANSWER_BYTES = HELLO_BYTES + PROOF_BYTES
# The longest line lists what was done before a job was resumed.
MOST_LINE_BYTES = 8 << 20
READ_BYTES = 1 << 16


def job_token(environ: Mapping[str, str], own: str | None = None) -> bytes:
    """Return 32 bytes, equal on every host of the job. `own`: the user's own token, which comes before all."""
    source = next((name for name in SOURCES if environ.get(name)), "")
    text = own or f"{source}={environ.get(source, '')}"
    return hashlib.sha256(b"dlc data service 1" + text.encode("utf-8", "surrogateescape")).digest()


def new_nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


def proof(token: bytes, *parts: bytes) -> bytes:
    """Prove that the sender holds the token and means these parts."""
    digest = hmac.new(token, digestmod="sha256")
    for part in parts:
        # The length keeps ("a", "bc") apart from ("ab", "c").
        digest.update(b"%d:%s" % (len(part), part))
    return digest.digest()


def is_proof(given: bytes, token: bytes, *parts: bytes) -> bool:
    return hmac.compare_digest(given, proof(token, *parts))


def hello(nonce: bytes) -> bytes:
    """Return the server's first bytes."""
    return MAGIC + nonce


def answer(said: bytes, token: bytes, own: bytes) -> bytes:
    """Return the consumer's answer to the server's hello. Raises ProtocolError if it was none."""
    if said[: len(MAGIC)] != MAGIC:
        raise ProtocolError(f"no data service listens there: it said {said[: len(MAGIC)]!r}")
    return MAGIC + own + proof(token, b"consumer", said[len(MAGIC) :], own)


def check_answer(given: bytes, token: bytes, own: bytes) -> bytes:
    """Return the server's proof for a consumer that holds the token. Raises RefusedError for another."""
    theirs, given_proof = given[len(MAGIC) : len(MAGIC) + NONCE_BYTES], given[len(MAGIC) + NONCE_BYTES :]
    if given[: len(MAGIC)] != MAGIC or not is_proof(given_proof, token, b"consumer", own, theirs):
        raise RefusedError("a connection that does not hold this job's token")
    return proof(token, b"server", own, theirs)


def check_welcome(given: bytes, token: bytes, said: bytes, own: bytes) -> None:
    """Raise RefusedError if the server does not hold the token either."""
    if not is_proof(given, token, b"server", said[len(MAGIC) :], own):
        raise RefusedError("the data server does not hold this job's token; every host needs the same DLC_JOB_TOKEN")


class Channel:
    """Values as lines of JSON, after the handshake. Never blocks.

    Its methods raise OSError when the other side is gone, ProtocolError when it breaks the rules.
    """

    def __init__(self, sock: socket.socket, token: bytes, is_server: bool) -> None:
        self.sock, self.token, self.is_server = tls.secure(sock, token, is_server), token, is_server
        self.is_open = False
        self._own = new_nonce()
        self._hello = b""
        self._in = bytearray()
        self._out = bytearray(hello(self._own) if is_server else b"")
        # Is sent once the connection is open.
        self._unsent: list[Any] = []

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out) and tls.is_ready(self.sock)

    def send(self, value: Any) -> None:
        if not self.is_open:
            self._unsent.append(value)
            return
        self._out += json.dumps(value, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            while self._out:
                del self._out[: self.sock.send(self._out)]
        except (BlockingIOError, InterruptedError):
            return

    def receive(self) -> list[Any]:
        """Return the values that came since."""
        try:
            data = self.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ConnectionError("closed")
        self._in += data
        if not self.is_open and not self._shake_hands():
            return []
        if b"\n" not in data and len(self._in) != len(data) and len(self._in) <= MOST_LINE_BYTES:
            # A part of a long line came.
            return []
        *lines, rest = bytes(self._in).split(b"\n")
        if len(rest) > MOST_LINE_BYTES:
            raise ProtocolError(f"a line of more than {MOST_LINE_BYTES} bytes")
        self._in = bytearray(rest)
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise ProtocolError(f"expected a line of JSON ({error})") from error

    def _shake_hands(self) -> bool:
        """Take the next step of the handshake; return whether it is done."""
        if self.is_server:
            if not MAGIC.startswith(self._in[: len(MAGIC)]):
                raise ProtocolError("expected a consumer")
            if len(self._in) < ANSWER_BYTES:
                return False
            self._out += check_answer(self._take_bytes(ANSWER_BYTES), self.token, self._own)
        else:
            if not self._hello and len(self._in) >= HELLO_BYTES:
                self._hello = self._take_bytes(HELLO_BYTES)
                self._out += answer(self._hello, self.token, self._own)
                self.flush()
            if not self._hello or len(self._in) < PROOF_BYTES:
                return False
            check_welcome(self._take_bytes(PROOF_BYTES), self.token, self._hello, self._own)
        self.is_open = True
        for value in self._unsent:
            self.send(value)
        self.flush()
        return True

    def _take_bytes(self, size: int) -> bytes:
        part = bytes(self._in[:size])
        del self._in[:size]
        return part
