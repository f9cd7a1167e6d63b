"""peers.wait: every name resolved, the missing ones named, no wait without end."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest

from launch import signals
from launch.base.errors import UNAVAILABLE, LaunchError
from launch.discovery import names as peers


def test_hosts_that_resolve_come_back_with_their_addresses_in_order() -> None:
    found = peers.wait(["localhost", "127.0.0.1"], timeout=30)
    assert list(found) == ["localhost", "127.0.0.1"]
    assert found["127.0.0.1"] == ("127.0.0.1",)


def test_an_ipv6_only_host_resolves() -> None:
    assert peers.wait(["::1"], timeout=30) == {"::1": ("::1",)}


def test_the_missing_peers_are_named_and_only_they() -> None:
    with pytest.raises(LaunchError) as error:
        peers.wait(["localhost", "algo-7.invalid", "algo-9.invalid"], timeout=0.2)
    assert error.value.exit_code == UNAVAILABLE
    assert "algo-7.invalid, algo-9.invalid did not resolve" in str(error.value)
    assert "DLC_PEER_TIMEOUT" in str(error.value)


@pytest.mark.parametrize("name", ["", "a" * 70 + ".invalid", "a..b", "\udcff"])
def test_a_name_no_resolver_takes_is_missing_and_no_traceback(name: str) -> None:
    assert peers.addresses(name) == () or name == ""


def test_a_name_that_appears_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = socket.getaddrinfo, []

    def late(host: str, *args: object, **kwargs: object) -> object:
        calls.append(host)
        if len(calls) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "not yet")
        return real("127.0.0.1", None)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    monkeypatch.setattr(peers, "RETRY", 0.01)
    assert peers.wait(["algo-2"], timeout=60)["algo-2"] == ("127.0.0.1",)
    assert len(calls) == 3


def test_a_resolver_that_hangs_does_not_hang_us(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: release.wait(60) and [])
    with pytest.raises(LaunchError, match="algo-2 did not resolve"):
        peers.wait(["algo-2"], timeout=0.1)
    release.set()


def test_a_stop_signal_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_received", [])
    before = signal.getsignal(signal.SIGTERM)
    signals.arm()
    signal.signal(signal.SIGTERM, lambda number, _frame: signals._received.append(number))
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        started = time.monotonic()
        with pytest.raises(signals.StopRequested, match="SIGTERM"):
            peers.wait(["algo-2.invalid"], timeout=600)
        assert time.monotonic() - started < 60
    finally:
        signal.signal(signal.SIGTERM, before)
