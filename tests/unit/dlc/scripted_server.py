"""An HTTP server on loopback that gives scripted answers and keeps what it was asked: a registry that misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
    """Where it listens, and every request so far."""

    host: str
    asked: list[Asked]

    @property
    def url(self) -> str:
        """Its root."""
        return f"http://{self.host}"


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[Server]:
    """Run the server until the end of the block."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
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

        do_GET = do_HEAD = do_POST = do_PUT = handle_any  # noqa: N815 (http.server's names)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
