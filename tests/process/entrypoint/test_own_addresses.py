"""names: which addresses are this host's own, as the kernel says when one is bound."""

from __future__ import annotations

from launch.discovery import host_addresses


def test_own_addresses_are_those_of_the_interface_and_those_that_the_name_means() -> None:
    assert host_addresses.own_addresses("127.0.0.7", "lo")[:2] == ("127.0.0.7", "127.0.0.1")


def test_a_name_that_leads_elsewhere_gives_no_own_address() -> None:
    assert host_addresses.own_addresses("192.0.2.1", "no-such-interface") == ()  # TEST-NET-1: nobody's
