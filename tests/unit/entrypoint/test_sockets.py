"""sockets: seats for strangers beside those of the hosts, and a leader that does not answer as one."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import NoReturn

import pytest

from dlc_channel.channel import FEWEST_SEATS
from launch.base.errors import CONFIG, LaunchError
from launch.coordination.membership import pack_json, unpack_json
from launch.coordination.sockets import (
    HOPELESS_AFTER_SECONDS,
    SURE_AFTER_SECONDS,
    CoordinatorAddress,
    UnprovedClaims,
    count_seats,
)


def test_seats_leave_descriptors_for_every_host_and_a_reserve() -> None:
    assert count_seats(2, 1 << 20) == FEWEST_SEATS
    assert count_seats(1000, 1 << 20) == 2000
    assert count_seats(2, -1) == FEWEST_SEATS  # no limit
    for hosts, files in ((2, 256), (2, 64), (350, 1024), (600, 1024)):
        assert (
            0 < count_seats(hosts, files) + hosts < files * 3 / 4 + 1
            or files - count_seats(hosts, files) - hosts >= 192
        )


def test_three_hundred_and_fifty_hosts_may_come_at_once_at_the_usual_limit() -> None:
    assert count_seats(350, 1024) >= 350


def test_a_limit_that_does_not_do_for_the_hosts_is_said_before_the_job_waits() -> None:
    with pytest.raises(LaunchError, match="1024 files, too few for a connection from each of 1000 hosts") as caught:
        count_seats(1000, 1024)
    assert caught.value.exit_code == CONFIG
    assert "--ulimit nofile=" in str(caught.value)


@pytest.mark.parametrize(("error", "how"), [(OSError("x"), "connection closed"), (TimeoutError("x"), "nothing heard")])
def test_what_answers_on_the_leaders_port_and_is_not_ours_has_the_token_and_the_port_as_remedies(
    error: OSError, how: str
) -> None:
    leader = CoordinatorAddress("algo-1", 7790, heartbeat=HOPELESS_AFTER_SECONDS)
    leader.note_failure(error, how, answered=True)
    leader._bad_since -= HOPELESS_AFTER_SECONDS
    assert how in leader.why_unreachable
    assert "DLC_JOB_TOKEN" in leader.remedy
    assert "DLC_GROUP_PORT" in leader.remedy


def fails(error: OSError) -> Callable[..., NoReturn]:
    def call(*words: object, **options: object) -> NoReturn:
        raise error

    return call


def lose_the_name(met: OSError, then: OSError, monkeypatch: pytest.MonkeyPatch) -> CoordinatorAddress:
    """A leader of which a connection met an error, and then its look-up another one, for HOPELESS_AFTER_SECONDS."""
    leader = CoordinatorAddress("algo-1", 7790)
    monkeypatch.setattr("launch.discovery.host_addresses.resolve", lambda _: ("127.0.0.1", "127.0.0.2"))
    monkeypatch.setattr("launch.coordination.sockets.socket.create_connection", fails(met))
    with pytest.raises(OSError, match=str(met.strerror)):
        leader.connect("algo-2", 1.0)
    monkeypatch.undo()
    monkeypatch.setattr("socket.getaddrinfo", fails(then))
    with pytest.raises(OSError, match="does not resolve"):
        leader.connect("algo-2", 1.0)
    leader._bad_since -= HOPELESS_AFTER_SECONDS
    return leader


REFUSED, NO_ROUTE = ConnectionRefusedError(111, "Connection refused"), OSError(113, "No route to host")
NO_DATA = socket.gaierror(socket.EAI_NODATA, "no address")
UNKNOWN, NO_ANSWER = socket.gaierror(socket.EAI_NONAME, "not known"), socket.gaierror(socket.EAI_AGAIN, "no answer")


def test_a_leader_that_is_gone_has_its_log_as_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = lose_the_name(REFUSED, UNKNOWN, monkeypatch)
    assert "algo-1 ended before the hosts had met" in leader.why_unreachable
    assert leader.remedy == "see the log of algo-1, which says why it ended"


def test_a_leader_whose_name_was_unknown_once_is_waited_for_while_the_resolver_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container that is started again, on an engine that then stands still; and one that is back."""
    leader = lose_the_name(REFUSED, UNKNOWN, monkeypatch)
    assert leader.why_unreachable
    monkeypatch.setattr("socket.getaddrinfo", fails(NO_ANSWER))
    with pytest.raises(OSError, match="does not resolve"):
        leader.connect("algo-2", 1.0)
    assert leader.why_unreachable == ""
    monkeypatch.setattr("socket.getaddrinfo", fails(UNKNOWN))
    with pytest.raises(OSError, match="does not resolve"):
        leader.connect("algo-2", 1.0)
    later = time.monotonic() + HOPELESS_AFTER_SECONDS
    monkeypatch.setattr("launch.coordination.sockets.time.monotonic", lambda: later)
    assert leader.why_unreachable == ""


def test_a_hub_that_takes_the_connection_and_says_nothing_has_the_time_of_a_heartbeat() -> None:
    """Its process has no turn on a busy host."""
    leader = CoordinatorAddress("algo-1", 7790, heartbeat=60.0)
    for seen, is_hopeless in ((HOPELESS_AFTER_SECONDS, False), (60.0, True)):
        leader.note_failure(TimeoutError(), "nothing heard for 5 s", answered=True)
        leader._bad_since = leader._bad_last - seen
        assert bool(leader.why_unreachable) == is_hopeless
    leader.note_failure(ConnectionResetError(), "connection closed", answered=True)
    assert leader.why_unreachable == ""


@pytest.mark.parametrize(("met", "then"), [(REFUSED, NO_ANSWER), (REFUSED, NO_DATA), (NO_ROUTE, UNKNOWN)])
def test_a_leader_that_was_never_there_or_a_resolver_that_does_not_answer_is_waited_for(
    met: OSError, then: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy engine names a container long before it runs, and leaves look-ups without an answer."""
    assert lose_the_name(met, then, monkeypatch).why_unreachable == ""


def test_an_answer_of_a_moment_is_forgotten_when_nobody_answers_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that ended for a reason of its own: its machine may take long to say that nobody is there."""
    now = [100.0]
    monkeypatch.setattr("launch.coordination.sockets.time.monotonic", lambda: now[0])
    leader = CoordinatorAddress("algo-1", 7790)
    leader.note_failure(ConnectionResetError(), "connection closed", answered=True)
    now[0] += SURE_AFTER_SECONDS + 1
    leader.note_failure(OSError(), "No route to host", answered=False)
    now[0] += HOPELESS_AFTER_SECONDS
    assert leader.why_unreachable == ""
    for _ in range(3):
        leader.note_failure(ConnectionResetError(), "connection closed", answered=True)
        now[0] += SURE_AFTER_SECONDS
    leader.note_failure(OSError(), "Connection refused", answered=False)
    assert "connection closed" in leader.why_unreachable


def test_claims_are_counted_by_host_and_told_with_the_last_address() -> None:
    claims = UnprovedClaims()
    assert claims.describe("algo-2") == ""
    assert [claims.add("algo-2", "10.0.0.8"), claims.add("algo-2", "10.0.0.9")] == [True, False]
    assert claims.describe("algo-2") == "algo-2 was claimed 2 times, last from 10.0.0.9, without the job's token"


def test_what_a_thousand_hosts_say_of_themselves_is_small_on_the_wire() -> None:
    facts = {f"algo-{n}": {"image": "1f" * 32, "traps": ["a" * 300] * 5, "ssh key": f"{n:068d}"} for n in range(1000)}
    packed = pack_json(facts)
    assert len(packed) < 200_000
    assert unpack_json(packed) == facts
