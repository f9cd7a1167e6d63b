"""The key-value store over HTTP at which Horovod's gloo ranks find each other's addresses.

GET /scope/key (404 until it is there), PUT /scope/key, DELETE /scope/rank ("I am connected"). When all ranks of a
scope have said so its keys are dropped, so that hvd.init() after hvd.shutdown() meets no stale address.

Horovod's client proves nothing. If DLC_RENDEZVOUS_SECRET is set, every path has to begin with it: the launcher puts
it into the ranks' address. All else gets 403.
Usage: horovod_rendezvous.py PORT SIZE LOCAL_SIZE CROSS_SIZE [ADDRESS...]     no address: every one of this machine
"""

import hmac
import os
import resource
import socket
import sys
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# An address is a few hundred
LONGEST_VALUE_BYTES = 1 << 16
# In a scope: one for a pair of ranks
MOST_KEYS_PER_RANK = 64
# Three, and those of process sets
MOST_SCOPES = 1024
# Characters
LONGEST_PATH = 1024
# Of those without the secret; fewer of few files
FEWEST_SEATS = 256
# Between two words of a client
REQUEST_SECONDS = 30


class FullError(Exception):
    """More than ranks of this job would ever store."""


class Store:
    """The keys of every scope, and who is done with it."""

    def __init__(self, size: int, local_size: int, cross_size: int) -> None:
        self._sizes = {"global": size, "local": local_size, "cross": cross_size}
        self._most_keys = MOST_KEYS_PER_RANK * size + 1024
        self._scopes: dict[str, dict[str, bytes]] = {}
        self._done: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def get(self, scope: str, key: str) -> "bytes | None":
        with self._lock:
            return self._scopes.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> None:
        """Keep a value. Raises FullError."""
        with self._lock:
            if scope not in self._scopes and len(self._scopes) >= MOST_SCOPES:
                raise FullError
            keys = self._scopes.setdefault(scope, {})
            if key not in keys and len(keys) >= self._most_keys:
                raise FullError
            keys[key] = value

    def finished(self, scope: str, rank: str) -> None:
        """Note that `rank` is connected. Scopes of process sets have no known size: there only its own key goes."""
        with self._lock:
            if scope not in self._scopes:
                return
            if "process_set" in scope or scope.split("_")[0] not in self._sizes:
                self._scopes[scope].pop(rank, None)
                return
            done = self._done.setdefault(scope, set())
            done.add(rank)
            if len(done) >= self._sizes[scope.split("_")[0]]:
                self._scopes.pop(scope, None)
                self._done.pop(scope)


class Server(ThreadingHTTPServer):
    """Listens on one address; without one on all of them, IPv6 too if the machine has it."""

    daemon_threads = True
    # All ranks may come at once
    request_queue_size = 1024

    def __init__(self, address: str, port: int, store: Store, secret: str, seats: int) -> None:
        self.store = store
        self.secret = secret
        self._seats = seats
        # Oldest first
        self._pending: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        if ":" in address or (not address and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__((address, port), Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if self.server_address[0] else 0)
        # HTTPServer's looks up this host's full name: that may take long.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "rendezvous", self.server_address[1]

    def process_request(self, request: "Any", place: "Any") -> None:
        """Seat it; if no seat is free, the address that holds most loses its oldest."""
        with self._lock:
            self._pending[request] = place[0]
            if len(self._pending) > self._seats:
                held = Counter(self._pending.values())
                oldest = max(self._pending, key=lambda sock: held[self._pending[sock]])
                del self._pending[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, place)

    def unseat(self, request: "Any") -> None:
        with self._lock:
            self._pending.pop(request, None)

    def shutdown_request(self, request: "Any") -> None:
        self.unseat(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Say nothing: who breaks off, or sends what is no HTTP, proves nothing and ends nothing."""


class Handler(BaseHTTPRequestHandler):
    """One request of one rank."""

    server: Server
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        address = self._address()
        if address:
            value = self.server.store.get(*address)
            self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        address, length = self._address(), self.headers.get("Content-Length", "")
        if not address:
            return
        if not (length.isascii() and length.isdigit() and int(length) <= LONGEST_VALUE_BYTES):
            self._answer(413)
            return
        try:
            self.server.store.put(*address, self.rfile.read(int(length)))
        except FullError:
            self._answer(507)
        else:
            self._answer(200)

    def do_DELETE(self) -> None:
        address = self._address()
        if address:
            self.server.store.finished(*address)
            self._answer(200)

    def log_message(self, *_: object) -> None:
        """Write nothing: hundreds of ranks poll every 10 ms."""

    def _address(self) -> "tuple[str, str] | None":
        """Return scope and key; None if the request was refused."""
        path = self.path.lstrip("/")
        if self.server.secret:
            # "SECRET:PORT/scope/key": Horovod appends the port to the address that it is given.
            shown, _, path = path.partition("/")
            if not hmac.compare_digest(shown.partition(":")[0].encode(), self.server.secret.encode()):
                self._answer(403)
                return None
        self.server.unseat(self.connection)
        if len(path) > LONGEST_PATH:
            self._answer(414)
            return None
        scope, _, key = path.partition("/")
        return scope, key

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until the launcher ends us."""
    port, size, local_size, cross_size = (int(argument) for argument in sys.argv[1:5])
    store = Store(size, local_size, cross_size)
    secret = os.environ.get("DLC_RENDEZVOUS_SECRET", "")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    # No limit is -1: a large number here.
    seats = min(max(FEWEST_SEATS, 2 * size), files % (1 << 62) // 4)
    try:
        servers = [Server(address, port, store, secret, seats) for address in sys.argv[5:] or [""]]
    except OSError as error:
        remedy = "set DLC_HOROVOD_PORT to a free port, the same on every host"
        sys.exit(f"dlc: port {port}, where Horovod's ranks meet, cannot be opened: {error.strerror}; {remedy}")
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


if __name__ == "__main__":
    main()
