"""A relay before a server of this host, which holds back the requests that a test wants to be in the midst of."""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import threading
from typing import Self

from harness.ports import free_port

CHUNK = 1 << 16


class Relay:
    """Listens in the `with`. A request whose first line fits `held` sets `reached`, and gets no further before `stop`.

    After `stop` and `start` nothing is held any more.
    """

    def __init__(self, server: str, held: str, address: str = "") -> None:
        """`server` is HOST:PORT, and so is `host`, where it listens: at another address of this host, or the same."""
        name, _, port = server.partition(":")
        self.reached = threading.Event()
        self._server = (name, int(port))
        self._own = (address or name, free_port(address or name))
        self.host = "{}:{}".format(*self._own)
        self._held = re.compile(held.encode())
        self._stopped = threading.Event()
        self._listener: socketserver.ThreadingTCPServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, and pass on all that comes."""
        relay = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                """One connection; a client or a server that goes away ends it."""
                with contextlib.suppress(OSError), socket.create_connection(relay._server) as server:
                    back = threading.Thread(target=_pass_on, args=(server, self.request), daemon=True)
                    back.start()
                    relay._forward(self.request, server)
                    back.join()

        class Listener(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        self._listener = Listener(self._own, Handler)
        threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse new connections, and close the one that is held."""
        self._stopped.set()
        if self._listener:
            self._listener.shutdown()
            self._listener.server_close()
            self._listener = None

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """A client says nothing more before it is answered, so a chunk begins with each request of a connection."""
        while chunk := client.recv(CHUNK):
            if self._held.match(chunk) and not self._stopped.is_set():
                self.reached.set()
                self._stopped.wait()
                server.shutdown(socket.SHUT_RDWR)
                return
            server.sendall(chunk)
        server.shutdown(socket.SHUT_WR)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Until the source says no more."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
