"""Seats of connections that have not proved themselves: that strangers took one costs no count and no lease."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlc_channel.channel import Channel, PendingConnections
from dlc_runtime.dataservice.client import lease_client, lease_server
from dlc_runtime.dataservice.errors import ConsumerLostError
from dlc_runtime.dataservice.wire import tally
from harness.ports import free_port

LOOPBACK = "127.0.0.1"
TOKEN = b"a token of the tests"


class Crowded(PendingConnections):
    """Seats that are taken: the first two connections lose theirs at once."""

    lost = 0

    def add(self, channel: Channel, address: str) -> Channel | None:
        super().add(channel, address)
        self.lost += 1
        return channel if self.lost <= 2 else None


class FullForEver(PendingConnections):
    """No connection keeps its seat."""

    def add(self, channel: Channel, address: str) -> Channel | None:
        super().add(channel, address)
        return channel


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a tally with such seats."""
    monkeypatch.setenv("DLC_DATA_TOKEN", "a token of the tests")
    monkeypatch.setattr(tally, "PendingConnections", request.param)
    monkeypatch.setattr(tally, "WITHIN_SECONDS", 1.0)
    found = tally.Tally(LOOPBACK, free_port())
    found.start()
    yield found._listener.getsockname()[1]
    found.close()


@pytest.mark.parametrize("port", [Crowded], indirect=True)
def test_a_count_whose_connection_lost_its_seat_is_told_again_and_counted_once(port: int) -> None:
    assert tally.report_count((LOOPBACK, port), "dlc-0 0 2", "a", 30) == (1, 30)
    assert tally.report_count((LOOPBACK, port), "dlc-0 0 2", "b", 10) == (2, 40)


@pytest.mark.parametrize("port", [FullForEver], indirect=True)
def test_a_port_that_never_has_a_seat_is_an_error_within_its_bound(port: int) -> None:
    with pytest.raises(OSError, match=r"connection closed|does not answer|reset"):
        tally.report_count((LOOPBACK, port), "dlc-0 0 2", "a", 30)


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """The address of a rank 0 with such seats."""
    monkeypatch.setattr(lease_server, "PendingConnections", request.param)
    listener = lease_server.open_lease_listener(LOOPBACK, free_port())
    address = listener.getsockname()
    found = lease_server.LeaseServer(listener, TOKEN, 1, "raise", 5.0, 5.0)
    yield address
    found.close()


@pytest.mark.parametrize("leases", [Crowded], indirect=True)
def test_a_rank_whose_connection_lost_its_seat_joins_with_another(leases: tuple[str, int]) -> None:
    channel = lease_client.join(leases, TOKEN, 30.0)
    assert channel.is_open
    channel.socket.close()


@pytest.mark.parametrize("leases", [FullForEver], indirect=True)
def test_a_rank_zero_that_never_has_a_seat_is_named_after_the_patience(leases: tuple[str, int]) -> None:
    with pytest.raises(ConsumerLostError, match=f"{LOOPBACK}:{leases[1]}, does not answer"):
        lease_client.join(leases, TOKEN, 0.5)


@pytest.mark.parametrize("leases", [PendingConnections], indirect=True)
def test_a_rank_of_another_job_is_refused_at_once(leases: tuple[str, int]) -> None:
    with pytest.raises(ConsumerLostError, match="it does not hold the job's token"):
        lease_client.join(leases, b"another token", 30.0)
