"""host_addresses: who resolves and who does not, in a bounded time; which addresses are this host's own."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from launch.discovery import host_addresses


def test_hosts_without_an_address_are_named_in_order_and_only_they() -> None:
    hosts = ["localhost", "algo-7.invalid", "127.0.0.1", "algo-9.invalid", "::1"]
    assert host_addresses.find_unresolved(hosts, 30) == ("algo-7.invalid", "algo-9.invalid")


@pytest.mark.parametrize("name", ["", "a" * 70 + ".invalid", "a..b", "\udcff"])
def test_a_name_no_resolver_takes_has_no_address_and_no_traceback(name: str) -> None:
    assert host_addresses.resolve(name) == () or name == ""


def test_a_resolver_that_hangs_does_not_hang_us(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: release.wait(300) and [])
    monkeypatch.setattr(host_addresses, "OWN_NAME_SECONDS", 0.1)
    started = time.monotonic()
    assert host_addresses.find_unresolved(["algo-2"], 0.1) == ("algo-2",)
    assert host_addresses.own_addresses("algo-2", "lo") == ("127.0.0.1", "::1") or not socket.has_dualstack_ipv6()
    assert time.monotonic() - started < 60
    release.set()


def test_a_thousand_names_take_a_bounded_number_of_threads() -> None:
    before = threading.active_count()
    assert host_addresses.find_unresolved([f"127.0.{number // 250}.{number % 250}" for number in range(1000)], 60) == ()
    assert threading.active_count() <= before + host_addresses.THREADS


@pytest.mark.parametrize(
    ("address", "plain"), [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("::1", "::1")]
)
def test_an_ipv4_address_is_one_also_where_it_came_over_ipv6(address: str, plain: str) -> None:
    assert host_addresses.plain_address(address) == plain


@pytest.mark.parametrize(
    ("text", "expected"), [("10.0.0.1", True), ("::1", True), ("fe80::1%eth0", True), ("algo-1", False)]
)
def test_addresses_are_told_from_names(text: str, expected: bool) -> None:
    assert host_addresses.is_address(text) == expected
