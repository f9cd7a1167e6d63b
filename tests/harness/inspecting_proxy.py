"""A proxy that ends TLS itself, with certificates of a private authority, and answers for every host behind it."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def inspecting(tls: ssl.SSLContext, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the first lines of the requests that came through it; each is answered with `body` as JSON."""
    asked: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            """One connection, one request."""
            _head(self.rfile)
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                with tls.wrap_socket(self.connection, server_side=True) as inside, inside.makefile("rwb") as file:
                    asked.append(_head(file))
                    file.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
                    file.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            except OSError:
                return  # a client that does not trust the certificate goes away

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def _head(file: object) -> str:
    """The first line of a request, all of whose headers are read."""
    lines = list(iter(file.readline, b"\r\n"))  # type: ignore[attr-defined]
    return lines[0].decode().strip() if lines else ""
