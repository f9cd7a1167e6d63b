"""The control process of a data host: gRPC with health service, no reflection. Says what is served and who works."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import OrderedDict
from concurrent import futures
from typing import TYPE_CHECKING, NamedTuple

from dlc_channel import keys
from dlc_runtime.dataservice.errors import DataServiceError, RefusedError
from dlc_runtime.dataservice.server import worker
from dlc_runtime.dataservice.server.worker_status import HostPauses
from dlc_runtime.dataservice.wire import control_rpc, tls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dlc_runtime.dataservice.server.worker_status import StatusTable

THREADS = 8
# Given out and not yet used.
MOST_NONCES = 1024
NONCE_LIFE_SECONDS = 30.0
# A worker writes its stacks even while the user's code holds Python's lock.
STACKS_SECONDS = 0.5
MOST_STACK_BYTES = 1 << 15


class Nonces:
    """Each serves once and not for long; strangers that ask for many push out the oldest only."""

    def __init__(self) -> None:
        self._given: OrderedDict[bytes, float] = OrderedDict()

    def give(self) -> bytes:
        nonce = keys.new_nonce()
        self._given[nonce] = time.monotonic() + NONCE_LIFE_SECONDS
        while len(self._given) > MOST_NONCES:
            self._given.popitem(last=False)
        return nonce

    def use(self, nonce: bytes) -> bool:
        return self._given.pop(nonce, 0.0) > time.monotonic()


class ControlCalls:
    """The calls, as functions from bytes to bytes."""

    def __init__(
        self, token: bytes, facts: Mapping[str, Any], table: StatusTable, stacks: list[int], stop: Callable[[], None]
    ) -> None:
        self.token, self.facts, self.table, self.stacks, self.stop = token, facts, table, stacks, stop
        self.nonces = Nonces()
        self.pauses = HostPauses()
        self.refused = 0

    def challenge(self, _request: bytes, _context: Any) -> bytes:
        return self.nonces.give()

    def checked(self, method: str, answer: Callable[[Any], Any]) -> Callable[[bytes, Any], bytes]:
        """Return a method that checks the caller, then answers."""

        def handle(request: bytes, context: Any) -> bytes:
            grpc = control_rpc.load_grpc()
            nonce = control_rpc.split_call(request)[0]
            try:
                if not self.nonces.use(nonce):
                    raise RefusedError("a call without a nonce of this server")
                body = control_rpc.open_call(self.token, request, method)
            except DataServiceError as error:
                self.refused += 1
                context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            return control_rpc.seal_reply(self.token, nonce, method, answer(body))

        return handle

    def describe(self, _body: Any) -> Any:
        return dict(self.facts)

    def status(self, body: Any) -> Any:
        """Tell what each worker does; with its stacks if it has worked for `stacks_after` seconds.

        Seconds in which the host stood still do not count: the user's function did not work then either.
        """
        after = body.get("stacks_after") if isinstance(body, dict) else None
        found, now = [], time.monotonic()
        for slot in range(self.table.slots):
            told: dict[str, Any] = self.table.read(slot)._asdict()
            since = told.pop("since")
            told["seconds"] = seconds = self.pauses.running_seconds(since, now) if since else None
            if seconds is not None and isinstance(after, (int, float)) and seconds >= after:
                told["stack"] = self.stack(slot, told["pid"])
            found.append(told)
        return {"workers": found, "refused": self.refused}

    def stack(self, slot: int, pid: int) -> str:
        """Return where the worker is. Its handler needs no Python lock, so a hanging extension is seen too."""
        fd = self.stacks[slot]
        before = os.fstat(fd).st_size
        try:
            os.kill(pid, worker.STACKS_SIGNAL)
        except OSError:
            return ""
        deadline, size = time.monotonic() + STACKS_SECONDS, before
        while time.monotonic() < deadline:
            time.sleep(0.05)
            size, last = os.fstat(fd).st_size, size
            if size > before and size == last:
                break
        return os.pread(fd, min(size - before, MOST_STACK_BYTES), before).decode("utf-8", "replace")

    def stop_servers(self, _body: Any) -> Any:
        self.stop()
        return {}


class StartFailure(NamedTuple):
    """Why a control process does not serve: it cannot `what`."""

    what: str
    why: str
    remedy: str = ""


def run_control(bound: Any, address: str, calls: ControlCalls, parent: int) -> None:
    """Live as the control process. Sends None through `bound` when it listens, else a StartFailure."""
    worker.die_with_parent(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        grpc, (health, health_pb2, health_pb2_grpc) = control_rpc.load_grpc(), control_rpc.load_health()
    except DataServiceError as error:
        bound.send(StartFailure("start its control process", str(error)))
        return
    server = grpc.server(
        futures.ThreadPoolExecutor(THREADS),
        maximum_concurrent_rpcs=THREADS * 8,
        options=[
            # A second server on the port is an error, not a lottery.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", control_rpc.MOST_MESSAGE),
            ("grpc.max_metadata_size", 8192),
            ("grpc.max_connection_idle_ms", 60_000),
        ],
    )
    handlers = {
        control_rpc.CHALLENGE: calls.challenge,
        control_rpc.DESCRIBE: calls.checked(control_rpc.DESCRIBE, calls.describe),
        control_rpc.STATUS: calls.checked(control_rpc.STATUS, calls.status),
        control_rpc.STOP: calls.checked(control_rpc.STOP, calls.stop_servers),
    }
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                control_rpc.SERVICE,
                dict(zip(handlers, map(grpc.unary_unary_rpc_method_handler, handlers.values()))),
            ),
        )
    )
    checks = health.HealthServicer(experimental_non_blocking=False)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    try:
        if not _bind(grpc, server, address, calls.token):
            raise RuntimeError("the port is in use, or the address is not this host's")
    except RuntimeError as error:
        remedy = "name another with port= of serve and DLC_DATA_PORT on every host"
        bound.send(StartFailure(f"listen at {address}", str(error) or "gRPC does not say why", remedy))
        return
    server.start()
    for service in ("", control_rpc.SERVICE):
        checks.set(service, health_pb2.HealthCheckResponse.SERVING)
    bound.send(None)
    threading.Thread(target=calls.pauses.watch, name="dlc-data-pauses", daemon=True).start()
    server.wait_for_termination()


def _bind(grpc: Any, server: Any, address: str, token: bytes) -> Any:
    """Return the port, 0 if the server cannot listen there."""
    own = tls.enabled_identity(token)
    if own is None:
        return server.add_insecure_port(address)
    known = grpc.ssl_server_credentials([(own.key, own.certificate)], own.authority, require_client_auth=True)
    return server.add_secure_port(address, known)
