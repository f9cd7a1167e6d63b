"""The sum of what the training processes took: a seat that strangers took does not cost the answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlc_channel.channel import Channel, PendingConnections
from dlc_runtime.dataservice.wire import tally
from harness.ports import free_port

LOOPBACK = "127.0.0.1"


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
    with pytest.raises(ConnectionError):
        tally.report_count((LOOPBACK, port), "dlc-0 0 2", "a", 30)
