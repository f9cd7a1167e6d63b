"""A TCP relay on loopback whose connections a test can break, as a network does."""

from __future__ import annotations

import select
import socket
import struct
import threading

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST


class Relay:
    """Carries connections to `port`; `reset` breaks all there are, and `is_closed` refuses new ones."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.is_closed = False
        self.connections = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._over = False
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """RST to both ends of every connection."""
        pairs, self._pairs = self._pairs, []
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
            ends = [sock for pair in self._pairs for sock in pair]
            try:
                readable = select.select([self._listener, *ends], [], [], 0.05)[0]
            except (OSError, ValueError):  # reset meanwhile
                continue
            if self._listener in readable:
                self._accept()
            for one, other in list(self._pairs):
                self._move(one, other, readable)
                self._move(other, one, readable)

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

    def _move(self, source: socket.socket, target: socket.socket, readable: list[socket.socket]) -> None:
        if source not in readable:
            return
        try:
            data = source.recv(1 << 16)
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._pairs = [pair for pair in self._pairs if source not in pair]
            source.close()
            target.close()
