"""A connection on which both sides prove that they hold the token and then send values, a line of JSON each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import ProtocolError
from dlc_runtime.dataservice.wire import frames, tls
from dlc_runtime.dataservice.wire import token as tokens

if TYPE_CHECKING:
    import socket
    from typing import Any

MOST_LINE = 8 << 20  # bytes; the longest is a list of what was done before a job was resumed
READ = 1 << 16


class Lines:
    """Never blocks. Its methods raise OSError when the other side is gone, ProtocolError when it breaks the rules."""

    def __init__(self, sock: socket.socket, token: bytes, is_server: bool) -> None:
        self.sock, self.token, self.is_server = tls.secured(sock, token, is_server), token, is_server
        self.is_open = False
        self._own = tokens.nonce()
        self._said = b""
        self._in = bytearray()
        self._out = bytearray(frames.hello(self._own) if is_server else b"")
        self._later: list[Any] = []  # what is sent once the connection is open

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out) and tls.is_ready(self.sock)

    def send(self, value: Any) -> None:
        if not self.is_open:
            self._later.append(value)
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
        """The values that came since."""
        try:
            data = self.sock.recv(READ)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ConnectionError("closed")
        self._in += data
        if not self.is_open and not self._greet():
            return []
        if b"\n" not in data and len(self._in) != len(data) and len(self._in) <= MOST_LINE:
            return []  # a long line, of which a part came
        *lines, rest = bytes(self._in).split(b"\n")
        if len(rest) > MOST_LINE:
            raise ProtocolError(f"a line of more than {MOST_LINE} bytes")
        self._in = bytearray(rest)
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise ProtocolError(f"expected a line of JSON ({error})") from error

    def _greet(self) -> bool:
        """Take the next step of the handshake; whether it is done."""
        if self.is_server:
            if not frames.MAGIC.startswith(self._in[: len(frames.MAGIC)]):
                raise ProtocolError("expected a consumer")
            if len(self._in) < frames.ANSWER:
                return False
            self._out += frames.check_answer(self._cut(frames.ANSWER), self.token, self._own)
        else:
            if not self._said and len(self._in) >= frames.HELLO:
                self._said = self._cut(frames.HELLO)
                self._out += frames.answer(self._said, self.token, self._own)
                self.flush()
            if not self._said or len(self._in) < tokens.PROOF:
                return False
            frames.check_welcome(self._cut(tokens.PROOF), self.token, self._said, self._own)
        self.is_open = True
        for value in self._later:
            self.send(value)
        self.flush()
        return True

    def _cut(self, size: int) -> bytes:
        part = bytes(self._in[:size])
        del self._in[:size]
        return part
