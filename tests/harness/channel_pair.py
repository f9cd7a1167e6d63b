"""Two ends of a dlc_channel connection in one process, with the wire in between at hand."""

from __future__ import annotations

import socket
from typing import Any

from dlc_channel.channel import Channel

KEY = b"k" * 32
HOST = "algo-2"


class Pair:
    """Two ends of a connection, and the wire in between at hand."""

    def __init__(self, server_key: bytes = KEY, client_key: bytes = KEY, purpose: str = "group", host: str = HOST):
        self.sockets = socket.socketpair()
        self.server = Channel(self.sockets[0], server_key, "group", is_server=True)
        self.client = Channel(self.sockets[1], client_key, purpose, is_server=False, host=host)

    def shake_hands(self) -> None:
        self.server.flush()
        assert self.client.receive() == []
        assert not self.client.is_open
        assert self.server.receive() == []
        assert self.client.receive() == []

    def play(self, sent: bytes) -> list[Any]:
        """What the server takes from these bytes of somebody in the client's place."""
        self.sockets[1].send(sent)
        return self.server.receive()

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record(count: int = 3) -> tuple[Pair, bytes, list[bytes]]:
    """A pair whose client has sent its line of the handshake, and so many lines; none has come to the server."""
    pair = Pair()
    pair.server.flush()
    pair.client.receive()
    hello = pair.sockets[0].recv(1 << 16)
    pair.sockets[1].setblocking(False)
    pair.client._open()  # as the server's proof does, which changes none of its words
    lines = []
    for number in range(count):
        pair.client.send({"kind": "done", "number": number})
        lines.append(bytes(pair.client._outgoing))
        pair.client._outgoing.clear()
    return pair, hello, lines
