"""A launcher that is killed outright is noticed soon where its machine says so; silence has the heartbeat's time."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hosts import LEADER, Job
from relay import Relay
from supervised import HANG_BOUND
from test_group_breaks import UNTIL_GO, wait_until_running

from launch.base.errors import UNAVAILABLE
from launch.coordination.failure_detector import (
    GONE_SECONDS,
    PROBE_INTERVAL_SECONDS,
    PROBE_SECONDS,
    LivenessPort,
    PeerProbe,
    RefusedStreak,
)

HOSTS = (LEADER, "algo-2", "algo-3")
SOON = 3.0  # seconds of refusals, instead of GONE_SECONDS; a busy host may need one to listen
CONSTANTS = {"launch.coordination.failure_detector.GONE_SECONDS": SOON}
LONG = 4.0 * HANG_BOUND  # seconds of heartbeat, longer than any test: only what is not silence can end the job


def scripts(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("running-")) for path in folder.glob("running-*")]


@pytest.mark.parametrize("victim", HOSTS[:2], ids=["the leader's", "a member's"])
def test_a_launcher_that_is_killed_is_noticed_long_before_the_heartbeat(tmp_path: Path, victim: str) -> None:
    with Job(tmp_path, HOSTS, heartbeat=LONG, constants=CONSTANTS) as job:
        hosts = {host: job.start(host, UNTIL_GO) for host in HOSTS}
        wait_until_running(tmp_path, 3)
        hosts.pop(victim).process.kill()
        try:
            for host in hosts.values():
                assert host.finish().exit_code == UNAVAILABLE
                assert victim in host.cause
                assert "vanished" in host.cause
                assert "its launcher is gone" in host.cause
        finally:
            for pid in scripts(tmp_path):  # the killed launcher's own: a container would end with its PID 1
                if Path(f"/proc/{pid}").exists():
                    os.kill(pid, signal.SIGKILL)


def test_a_way_that_is_blocked_for_longer_than_that_is_borne_while_the_launchers_live(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS[:2], heartbeat=LONG, constants=CONSTANTS) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        relay.is_closed = True
        relay.reset()
        time.sleep(3 * SOON)
        relay.is_closed = False
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], (leader.stderr, other.stderr)


def refused_for(seconds: float, gap: float) -> bool:
    row = RefusedStreak()
    for number in range(int(seconds / gap) + 1):
        row.add(100.0 + number * gap)
    return row.is_long_enough


def test_only_a_row_of_refusals_without_long_gaps_is_enough() -> None:
    assert not refused_for(GONE_SECONDS - 1, 0.5)
    assert refused_for(GONE_SECONDS, 0.5)
    row = RefusedStreak()
    row.add(0.0)
    row.add(1000.0)  # this process stood still in between
    assert not row.is_long_enough
    for number in range(int(GONE_SECONDS) - 1):
        row.add(1001.0 + number)
    row.reset()
    row.add(1020.0)
    row.add(1021.0)
    assert not row.is_long_enough


def looked_at(sign: tuple[str, int] | None) -> PeerProbe:
    """An probe after GONE_SECONDS and more of looks at the port, on a clock that runs fast."""
    probe = PeerProbe("connection closed", 0.0, sign)
    for number in range(int((GONE_SECONDS + PROBE_SECONDS) / PROBE_INTERVAL_SECONDS) + 2):
        if probe._probe is not None:
            select.select([], [probe._probe], [], 0.05)
        probe.advance(number * PROBE_INTERVAL_SECONDS)
    probe.close()
    return probe


def test_a_machine_that_refuses_the_port_says_that_the_launcher_is_gone() -> None:
    with socket.create_server((LEADER, 0)) as listener:
        sign = listener.getsockname()
    assert looked_at(sign).is_gone


def test_silence_says_nothing() -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server((LEADER, 0), backlog=0))  # the kernel drops who comes then
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        assert not looked_at(full.getsockname()).is_gone


def test_a_host_whose_own_address_is_hidden_is_not_asked() -> None:
    assert not looked_at(None).is_gone


def test_a_launcher_that_lives_is_not_gone_however_often_it_is_asked() -> None:
    life = LivenessPort()
    with socket.create_server((LEADER, 0)) as hub, closing(life), socket.create_connection(hub.getsockname()) as near:
        told = life.open(near)
        assert told is not None
        assert life.open(near) == told
        sign = (str(told[0]), int(told[1]))
        assert not looked_at(sign).is_gone
        life.clear()
        with socket.create_connection(sign, HANG_BOUND) as asked:
            life.clear()
            assert asked.recv(1) == b""
    with socket.socket() as late:
        assert late.connect_ex(sign) == errno.ECONNREFUSED
