"""The floor: sendall and recv_into over one TCP connection, no frames, no answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import batches
import numpy


def serve(port: int, size: int) -> None:
    images, labels = batches.ready(size)
    data = bytearray(images.tobytes() + labels.tobytes())
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        try:
            while True:
                connection.sendall(data)
        except ConnectionError:
            return


def take(port: int, size: int) -> Iterator[Any]:
    total = batches.size_of(batches.ready(size))
    buffer = numpy.empty(total, dtype=numpy.uint8)
    memory = memoryview(buffer)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while True:
            done = 0
            while done < total:
                done += connection.recv_into(memory[done:])
            yield buffer, buffer


if __name__ == "__main__":
    batches.play(serve, take)
