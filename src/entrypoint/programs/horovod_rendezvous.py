"""The key-value store over HTTP at which Horovod's gloo ranks find each other's addresses.

GET /scope/key (404 until it is there), PUT /scope/key, DELETE /scope/rank ("I am connected"). When all ranks of a
scope have said so its keys are dropped, so that hvd.init() after hvd.shutdown() meets no stale address.
Usage: horovod_rendezvous.py PORT SIZE LOCAL_SIZE CROSS_SIZE
"""

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Store:
    """The keys of every scope, and who is done with it."""

    def __init__(self, size: int, local_size: int, cross_size: int) -> None:
        self._sizes = {"global": size, "local": local_size, "cross": cross_size}
        self._scopes: dict[str, dict[str, bytes]] = {}
        self._done: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def get(self, scope: str, key: str) -> "bytes | None":
        with self._lock:
            return self._scopes.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> None:
        with self._lock:
            self._scopes.setdefault(scope, {})[key] = value

    def finished(self, scope: str, rank: str) -> None:
        """Note that `rank` is connected. Scopes of process sets have no known size: there only its own key goes."""
        with self._lock:
            if "process_set" in scope or scope.split("_")[0] not in self._sizes:
                self._scopes.get(scope, {}).pop(rank, None)
                return
            done = self._done.setdefault(scope, set())
            done.add(rank)
            if len(done) >= self._sizes[scope.split("_")[0]]:
                self._scopes.pop(scope, None)
                self._done.pop(scope)


class Server(ThreadingHTTPServer):
    """Listens on every address, IPv6 too where the machine has it."""

    daemon_threads = True
    request_queue_size = 1024  # every rank of the job may come at once

    def __init__(self, port: int, store: Store) -> None:
        self.store = store
        if socket.has_dualstack_ipv6():
            self.address_family = socket.AF_INET6
        super().__init__(("", port), Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's, which looks up this host's full name and may wait for a name server.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "rendezvous", self.server_address[1]


class Handler(BaseHTTPRequestHandler):
    """One request of one rank."""

    server: Server

    def do_GET(self) -> None:
        value = self.server.store.get(*self._address())
        self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.store.put(*self._address(), value)
        self._answer(200)

    def do_DELETE(self) -> None:
        self.server.store.finished(*self._address())
        self._answer(200)

    def log_message(self, *_: object) -> None:
        """Nothing: hundreds of ranks poll every 10 ms."""

    def _address(self) -> "tuple[str, str]":
        scope, _, key = self.path.strip("/").partition("/")
        return scope, key

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until the launcher ends us."""
    port, size, local_size, cross_size = (int(argument) for argument in sys.argv[1:])
    Server(port, Store(size, local_size, cross_size)).serve_forever()


if __name__ == "__main__":
    main()
