"""An HTTP server on loopback that gives scripted answers and keeps what it was asked: a registry that misbehaves."""

from __future__ import annotations

import gc
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str  # with its query
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """An answer; status 0 closes the connection without one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Server:
    """Where it listens, every request so far, and the clients of every connection."""

    host: str
    asked: list[Asked]
    scheme: str
    connections: list[tuple[str, int]]

    @property
    def url(self) -> str:
        """Its root."""
        return f"{self.scheme}://{self.host}"


class QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that go away."""

    def handle_error(self, *_: object) -> None:
        """Nothing on stderr."""


@contextmanager
def serving(
    answer: Callable[[Asked], Reply],
    tls: ssl.SSLContext | None = None,
    idle_seconds: float = 0.0,
    opening_seconds: float = 0.0,
) -> Iterator[Server]:
    """Run the server until the end of the block; with `tls` over that.

    With `idle_seconds` it keeps connections until they were idle for so long; `opening_seconds` pass before the first
    answer on each.
    """
    asked: list[Asked] = []
    connections: list[tuple[str, int]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if idle_seconds else "HTTP/1.0"
        timeout = idle_seconds or None

        def setup(self) -> None:
            time.sleep(opening_seconds)
            super().setup()
            connections.append(self.client_address)

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length))
            asked.append(request)
            reply = answer(request)
            if not reply.status:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_CONNECT = handle_any  # noqa: N815 (http.server's names)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    if tls:
        # The handshake is the handler's: one that fails ends its connection and nothing else.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"127.0.0.1:{server.server_address[1]}", asked, "https" if tls else "http", connections)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def refusing_proxy(status: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all requests over TLS go to a proxy that refuses them.

    Debian 12's Python leaves the proxy's answer open: it is collected here, where that is no fault of another test.
    """
    for name in ("no_proxy", "NO_PROXY"):
        patch.delenv(name, raising=False)
    with serving(lambda _: Reply(status)) as proxy:
        patch.setenv("https_proxy", proxy.url)
        yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
