"""Hosts that were given their list in different orders say so soon, whoever leads; hosts of one list meet as ever."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from hosts import Job
from supervised import HANG_BOUND

from dlc_channel.channel import Channel
from launch.base.errors import CONFIG

A, B, C = "127.0.0.1", "127.0.0.2", "127.0.0.3"
# So that each host is asked often while others are late
OFTEN = {"launch.coordination.leader_scout.PAUSE_SECONDS": 0.1}


def end_of_job(folder: Path, lists: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Start a host for each list, by its name; return what each says of its end, which is one of its settings."""
    with Job(folder, (), timeout=HANG_BOUND * 2) as job:
        started = {}
        for host, listed in lists.items():
            job.hosts = job.members = listed
            started[host] = job.start(host, "pass")
        for process in started.values():
            assert process.finish().exit_code == CONFIG, process.stderr
        return {host: process.cause for host, process in started.items()}


@pytest.mark.parametrize("others", [(), (C,)], ids=["two hosts", "three hosts"])
def test_two_hosts_that_both_lead_say_so_soon_on_each(tmp_path: Path, others: tuple[str, ...]) -> None:
    lists = {A: (A, B, *others), **dict.fromkeys(others, (A, B, *others)), B: (B, A, *others)}
    for cause in end_of_job(tmp_path, lists).values():
        assert "different lists of hosts" in cause
        assert f"{B} on {B}" in cause or f"{A} on {A}" in cause


def test_two_hosts_that_take_each_other_for_the_leader_say_so_soon_on_each(tmp_path: Path) -> None:
    causes = end_of_job(tmp_path, {A: (B, A), B: (A, B)})
    assert f"{B} is the first on {A}, and {A} on {B}" in causes[A]
    assert f"{A} is the first on {B}, and {B} on {A}" in causes[B]


@pytest.mark.long
def test_three_hosts_that_follow_each_other_in_a_ring_say_so_soon_on_each(tmp_path: Path) -> None:
    causes = end_of_job(tmp_path, {A: (B, C, A), B: (C, A, B), C: (A, B, C)})
    leaders = {A: B, B: C, C: A}
    for host, leader in leaders.items():
        # It asked its leader, or the host that takes it for the leader asked it
        others = [f"{found} on {other}" for other, found in leaders.items() if other != host]
        assert any(f"{leader} is the first on {host}, and {other}" in causes[host] for other in others), causes[host]


def test_a_leader_and_a_missing_host_that_follows_another_one_hear_of_each_other(tmp_path: Path) -> None:
    """The host waits for one that has met its leader, and would wait until the end."""
    with Job(tmp_path, (A, B, C), timeout=HANG_BOUND * 2) as job:
        hosts = [job.start(host, "pass") for host in (A, B)]
        job.hosts = job.members = (B, A, C)
        hosts.append(job.start(C, "pass"))
        for host in hosts:
            assert host.finish().exit_code == CONFIG, host.stderr
            # The leader asks the missing host, or that host has asked the other one before it met its leader.
            found = (
                f"{A} is the first on {A}, and {B} on {C}",
                f"{B} is the first on {C}, and {A} on {A}",
                f"{B} is the first on {C}, and {A} on {B}",
            )
            assert any(text in host.cause for text in found), host.cause


def test_hosts_of_one_list_meet_when_their_leader_comes_late(tmp_path: Path) -> None:
    """They say at the group's port whom they follow, and free it as soon as they have met."""
    with Job(tmp_path, (A, B, C), timeout=HANG_BOUND, constants=OFTEN) as job:
        hosts = [job.start(B, "pass")]
        place = B, job.join["port"]
        deadline = time.monotonic() + HANG_BOUND
        while not _takes_connections(place):
            assert time.monotonic() < deadline, "it does not say whom it follows"
        hosts.append(job.start(A, "pass"))
        while _takes_connections(place):
            assert time.monotonic() < deadline, "it has met its leader, and listens on"
        time.sleep(1.0)  # the leader asks the last host, which is missing
        hosts.append(job.start(C, "pass"))
        assert [host.finish().exit_code for host in hosts] == [0, 0, 0], [host.stderr for host in hosts]


def test_a_stranger_who_says_whom_it_follows_ends_no_job(tmp_path: Path) -> None:
    """It listens in the leader's place and holds another key."""
    with Job(tmp_path, (A, B), timeout=HANG_BOUND, constants=OFTEN) as job:
        with socket.create_server((A, job.join["port"])) as stranger:
            host = job.start(B, "pass")
            for _ in range(20):
                sock, _ = stranger.accept()
                with sock:
                    channel = Channel(sock, b"another key" * 3, "probe", is_server=True)
                    channel.send({"host": A, "leader": B})
                    channel.flush()
                    time.sleep(0.05)
        leader = job.start(A, "pass")
        assert [leader.finish().exit_code, host.finish().exit_code] == [0, 0], host.stderr


def _takes_connections(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, 1).close()
    except OSError:
        time.sleep(0.02)
        return False
    return True
