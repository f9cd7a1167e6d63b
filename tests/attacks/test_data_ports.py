"""The port that the data service of TensorFlow's images opens for its counts: strangers change no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from crowd import LOOPBACK, Crowd
from relay import Relay
from stranger import ATTACKS
from supervised import wait_until

from dlc_runtime.dataservice.errors import RefusedError
from dlc_runtime.dataservice.wire import tally
from harness.ports import free_port

pytestmark = pytest.mark.long
TRIES = 50


@pytest.fixture
def adding(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[tally.Tally, int]]:
    """What adds up the shares of the training processes, and its port."""
    monkeypatch.setenv("DLC_DATA_TOKEN", "a token of the tests")
    port = free_port()
    found = tally.Tally(LOOPBACK, port)
    found.start()
    yield found, port
    found.close()
    assert not found.is_alive()


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_last_process_hears_the_sum_under_attack(
    tmp_path: Path, adding: tuple[tally.Tally, int], attack: str
) -> None:
    thread, port = adding
    recorded = tmp_path / "sent"
    with Relay(port) as relay:
        assert tally.report_count((LOOPBACK, relay.port), "dlc-0 0 2", "a", 30) == (1, 30)
        wait_until(lambda: b"dlc-0" in relay.sent)
        recorded.write_bytes(relay.sent)
    with Crowd(attack, [(LOOPBACK, port)], recorded=str(recorded)) as crowd:
        crowd.wait_for(TRIES)
        answers = [tally.report_count((LOOPBACK, port), f"dlc-0 {epoch} 2", "b", 10) for epoch in range(2)]
        assert answers == [(2, 40), (1, 10)]
        crowd.wait_for(TRIES)
    assert thread.is_alive()


def test_who_holds_another_key_hears_nothing(adding: tuple[tally.Tally, int], monkeypatch: pytest.MonkeyPatch) -> None:
    place = (LOOPBACK, adding[1])
    with monkeypatch.context() as other:
        other.setenv("DLC_DATA_TOKEN", "another token")
        with pytest.raises(RefusedError, match="it does not hold the job's token"):
            tally.report_count(place, "dlc-0 0 2", "a", 1)
    assert tally.report_count(place, "dlc-0 0 2", "a", 2) == (1, 2)
