"""Calls of a data host's control process: what a nonce is good for, and what strangers cannot do to it."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dlc_runtime.dataservice.server import control_server
from dlc_runtime.dataservice.server.control_server import NONCE_LIFE_SECONDS, ControlCalls, Nonces
from dlc_runtime.dataservice.server.worker_status import StatusTable
from dlc_runtime.dataservice.wire import control_rpc

TOKEN = b"a token"


class AbortedError(Exception):
    """What gRPC's `abort` raises."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(now=1000.0)
    found.monotonic = lambda: found.now
    monkeypatch.setattr(control_server, "time", found)
    return found


def test_a_nonce_serves_once_however_many_strangers_ask_for_meanwhile() -> None:
    nonces = Nonces()
    own = nonces.give()
    others = {nonces.give() for _ in range(5000)}
    assert len(others) == 5000
    assert nonces.use(own)
    assert not nonces.use(own)


def test_a_nonce_of_another_server_and_a_changed_one_do_not_serve() -> None:
    nonces = Nonces()
    given = nonces.give()
    wrong = [bytes([*given[:at], given[at] ^ 1, *given[at + 1 :]]) for at in range(len(given))]
    for nonce in (*wrong, Nonces().give(), b"", given + b"x", b"\xff" * 32):
        assert not nonces.use(nonce)
    assert nonces.use(given)


def test_a_nonce_does_not_serve_for_long_and_is_forgotten_then(clock: SimpleNamespace) -> None:
    nonces = Nonces()
    early, late, used = nonces.give(), nonces.give(), nonces.give()
    assert nonces.use(used)
    clock.now += NONCE_LIFE_SECONDS
    assert nonces.use(early)
    assert not nonces.use(used)
    clock.now += 1
    assert not nonces.use(late)
    assert not nonces.use(used)
    assert list(nonces._used) == [early]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> ControlCalls:
    code = SimpleNamespace(UNAUTHENTICATED="unauthenticated")
    monkeypatch.setattr(control_rpc, "load_grpc", lambda: SimpleNamespace(StatusCode=code))
    return ControlCalls(TOKEN, {"host": "algo-1"}, StatusTable(1), [], sys.exit)


async def abort(code: str, why: str) -> None:
    raise AbortedError(f"{code}: {why}")


def answer(calls: ControlCalls, request: bytes) -> bytes:
    describe = calls.checked(control_rpc.DESCRIBE, calls.describe)
    context: Any = SimpleNamespace(abort=abort)

    async def run() -> bytes:
        return await describe(request, context)

    return asyncio.run(run())


def test_a_call_is_answered_once(calls: ControlCalls) -> None:
    nonce = calls.nonces.give()
    call = control_rpc.seal_call(TOKEN, nonce, control_rpc.DESCRIBE, None)
    told = control_rpc.open_reply(TOKEN, nonce, control_rpc.DESCRIBE, answer(calls, call))
    assert told == {"host": "algo-1"}
    with pytest.raises(AbortedError, match="a call without a nonce of this server"):
        answer(calls, call)
    assert calls.refused == 1


def test_a_stranger_uses_up_no_nonce(calls: ControlCalls) -> None:
    """Also one that it has heard of on its way: a call without the proof is none."""
    nonce = calls.nonces.give()
    for token, method in ((b"another", control_rpc.DESCRIBE), (TOKEN, control_rpc.STATUS)):
        with pytest.raises(AbortedError, match="does not hold this job's token"):
            answer(calls, control_rpc.seal_call(token, nonce, method, None))
    assert answer(calls, control_rpc.seal_call(TOKEN, nonce, control_rpc.DESCRIBE, None))
