"""A TCP relay on loopback whose connections a test can break or silence, as a network does."""

from __future__ import annotations

import select
import socket
import struct
import threading

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST


class Relay:
    """Carries connections to `port`; `reset` breaks all there are, and `is_closed` refuses new ones.

    `silence` leaves those that there are open and carries nothing on them any more, as while a kernel waits long before
    it sends again what was lost; new ones work.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.is_closed = False
        self.connections = 0
        self.sent = b""  # by the hosts' ends, on all connections one after the other
        self._pairs: list[tuple[socket.socket, socket.socket]] = []  # the host's end, the coordinator's end
        self._silent: list[tuple[socket.socket, socket.socket]] = []
        self._ways: tuple[int, ...] = ()  # from which ends nothing comes through on these
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._over = False
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def silence(self, *ways: int) -> None:
        """Let nothing more through from the host's end (0), from the coordinator's (1), without `ways` from both."""
        self._ways = ways or (0, 1)
        self._silent, self._pairs = [*self._silent, *self._pairs], []

    def reset(self) -> None:
        """RST to both ends of every connection."""
        pairs, self._pairs, self._silent = [*self._pairs, *self._silent], [], []
        for pair in pairs:
            for sock in pair:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                sock.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        self.reset()
        self._listener.close()

    def _carry(self) -> None:
        while not self._over:
            silent = [pair[way] for pair in self._silent for way in (0, 1) if way not in self._ways]
            ends = [*silent, *(sock for pair in self._pairs for sock in pair)]
            try:
                readable = select.select([self._listener, *ends], [], [], 0.05)[0]
            except (OSError, ValueError):  # reset meanwhile
                continue
            if self._listener in readable:
                self._accept()
            for one, other in list(self._pairs):
                self.sent += self._move(one, other, readable)
                self._move(other, one, readable)
            for pair in list(self._silent):
                for way in {0, 1} - {*self._ways}:
                    self._move(pair[way], pair[1 - way], readable)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        if self.is_closed:
            near.close()
            return
        try:
            self._pairs.append((near, socket.create_connection(("127.0.0.1", self.target), 5)))
            self.connections += 1
        except OSError:
            near.close()

    def _move(self, source: socket.socket, target: socket.socket, readable: list[socket.socket]) -> bytes:
        """What was carried."""
        if source not in readable:
            return b""
        try:
            data = source.recv(1 << 16)
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._pairs = [pair for pair in self._pairs if source not in pair]
            self._silent = [pair for pair in self._silent if source not in pair]
            source.close()
            target.close()
        return data
