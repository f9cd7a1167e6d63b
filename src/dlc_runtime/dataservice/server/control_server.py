"""The control process of a data host: gRPC with health service, no reflection. Says what is served and who works.

One thread and an event loop: a call whose request never comes whole costs memory for a while, and no thread.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import resource
import signal
import struct
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from dlc_channel import keys
from dlc_runtime.dataservice.errors import DataServiceError, RefusedError
from dlc_runtime.dataservice.server import worker
from dlc_runtime.dataservice.server.worker_status import HostPauses
from dlc_runtime.dataservice.wire import control_rpc, tls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from dlc_runtime.dataservice.server.worker_status import StatusTable

# Of one connection: more cost the loop so much that gRPC drops calls of the job too.
MOST_CALLS = 2
# A request, beside its proof, holds a number or nothing.
MOST_REQUEST = 1 << 12
# A connection ends so long after it began, whatever it does; calls under way have as long again.
CONNECTION_SECONDS = 10
# For connections of strangers beside those of the job.
MANY_FILES = 1 << 13
HEALTH_SERVICE, CHECK = "grpc.health.v1.Health", "Check"
NONCE_LIFE_SECONDS = 30.0
# A nonce: when it was given, random bytes, and a proof that it was given here.
_NONCE = struct.Struct("<d8s16s")
# A worker writes its stacks even while the user's code holds Python's lock.
STACKS_SECONDS = 0.5
MOST_STACK_BYTES = 1 << 15


class Nonces:
    """Each serves once and not for long. One that is given costs no memory: strangers may ask for any number."""

    def __init__(self) -> None:
        self._secret = keys.new_nonce()
        self._used: OrderedDict[bytes, float] = OrderedDict()

    def give(self) -> bytes:
        return self._make(time.monotonic(), os.urandom(8))

    def use(self, nonce: bytes) -> bool:
        """Return whether the nonce serves; only for a call whose proof was right."""
        now = time.monotonic()
        while self._used and next(iter(self._used.values())) < now - NONCE_LIFE_SECONDS:
            self._used.popitem(last=False)
        if len(nonce) != _NONCE.size or nonce in self._used:
            return False
        given, chance, _ = _NONCE.unpack(nonce)
        if not hmac.compare_digest(nonce, self._make(given, chance)) or now - given > NONCE_LIFE_SECONDS:
            return False
        self._used[nonce] = now
        return True

    def _make(self, given: float, chance: bytes) -> bytes:
        told = _NONCE.pack(given, chance, b"")
        return told[:16] + keys.proof(self._secret, told)[:16]


class ControlCalls:
    """The calls, as functions from bytes to bytes."""

    def __init__(
        self, token: bytes, facts: Mapping[str, Any], table: StatusTable, stacks: list[int], stop: Callable[[], None]
    ) -> None:
        self.token, self.facts, self.table, self.stacks, self.stop = token, facts, table, stacks, stop
        self.nonces = Nonces()
        self.pauses = HostPauses()
        self.refused = 0

    async def challenge(self, _request: bytes, _context: Any) -> bytes:
        return self.nonces.give()

    def checked(self, method: str, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[bytes, Any], Awaitable[bytes]]:
        """Return a method that checks the caller, then answers."""

        async def handle(request: bytes, context: Any) -> bytes:
            grpc = control_rpc.load_grpc()
            nonce = control_rpc.split_call(request)[0]
            try:
                body = control_rpc.open_call(self.token, request, method)
                if not self.nonces.use(nonce):
                    raise RefusedError("a call without a nonce of this server")
            except DataServiceError as error:
                self.refused += 1
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            return control_rpc.seal_reply(self.token, nonce, method, await answer(body))

        return handle

    async def describe(self, _body: Any) -> Any:
        return dict(self.facts)

    async def status(self, body: Any) -> Any:
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
                told["stack"] = await self.stack(slot, told["pid"])
            found.append(told)
        return {"workers": found, "refused": self.refused}

    async def stack(self, slot: int, pid: int) -> str:
        """Return where the worker is. Its handler needs no Python lock, so a hanging extension is seen too."""
        fd = self.stacks[slot]
        before = os.fstat(fd).st_size
        try:
            os.kill(pid, worker.STACKS_SIGNAL)
        except OSError:
            return ""
        deadline, size = time.monotonic() + STACKS_SECONDS, before
        while time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            size, last = os.fstat(fd).st_size, size
            if size > before and size == last:
                break
        return os.pread(fd, min(size - before, MOST_STACK_BYTES), before).decode("utf-8", "replace")

    async def stop_servers(self, _body: Any) -> Any:
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
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MANY_FILES)), hard))
    asyncio.run(_serve_calls(bound, address, calls))


async def _serve_calls(bound: Any, address: str, calls: ControlCalls) -> None:
    try:
        grpc, health = control_rpc.load_grpc(), control_rpc.load_health()
    except DataServiceError as error:
        bound.send(StartFailure("start its control process", str(error)))
        return
    server = grpc.aio.server(
        options=[
            # A second server on the port is an error, not a lottery.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MOST_REQUEST),
            ("grpc.max_metadata_size", 8192),
            ("grpc.max_concurrent_streams", MOST_CALLS),
            ("grpc.server_handshake_timeout_ms", CONNECTION_SECONDS * 1000),
            ("grpc.max_connection_age_ms", CONNECTION_SECONDS * 1000),
            ("grpc.max_connection_age_grace_ms", CONNECTION_SECONDS * 1000),
        ],
    )
    handlers = {
        control_rpc.CHALLENGE: calls.challenge,
        control_rpc.DESCRIBE: calls.checked(control_rpc.DESCRIBE, calls.describe),
        control_rpc.STATUS: calls.checked(control_rpc.STATUS, calls.status),
        control_rpc.STOP: calls.checked(control_rpc.STOP, calls.stop_servers),
    }
    methods = dict(zip(handlers, map(grpc.unary_unary_rpc_method_handler, handlers.values())))
    check = grpc.unary_unary_rpc_method_handler(
        _make_check(grpc, health), health.HealthCheckRequest.FromString, health.HealthCheckResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(control_rpc.SERVICE, methods),
            grpc.method_handlers_generic_handler(HEALTH_SERVICE, {CHECK: check}),
        )
    )
    try:
        if not _bind(grpc, server, address, calls.token):
            raise RuntimeError("the port is in use, or the address is not this host's")
    except RuntimeError as error:
        remedy = "name another with port= of serve and DLC_DATA_PORT on every host"
        bound.send(StartFailure(f"listen at {address}", str(error) or "gRPC does not say why", remedy))
        return
    await server.start()
    bound.send(None)
    threading.Thread(target=calls.pauses.watch, name="dlc-data-pauses", daemon=True).start()
    await server.wait_for_termination()


def _make_check(grpc: Any, health: Any) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return the health service's one method. Its other one, Watch, would hold what a stranger asks it to watch."""

    async def check(request: Any, context: Any) -> Any:
        if request.service not in ("", control_rpc.SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return health.HealthCheckResponse(status=health.HealthCheckResponse.SERVING)

    return check


def _bind(grpc: Any, server: Any, address: str, token: bytes) -> Any:
    """Return the port, 0 if the server cannot listen there."""
    own = tls.enabled_identity(token)
    if own is None:
        return server.add_insecure_port(address)
    known = grpc.ssl_server_credentials([(own.key, own.certificate)], own.authority, require_client_auth=True)
    return server.add_secure_port(address, known)
