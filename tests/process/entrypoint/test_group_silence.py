"""Connections on which nothing comes: given up for new ones in time; the leader stays until all have heard the end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from hosts import LEADER, Job
from relay import Relay
from supervised import HANG_BOUND, wait_until
from test_group_breaks import UNTIL_GO, wait_until_running

from launch.base.errors import UNAVAILABLE
from launch.coordination.failure_detector import HeartbeatTimer, beat_interval, quiet_bound

HOSTS = (LEADER, "algo-2")
FROM_HOST, FROM_HUB = 0, 1
LINGER = 1.0  # seconds, instead of the coordinator's own
CONSTANTS = {"launch.coordination.coordinator.LINGER_SECONDS": LINGER}
LONG = 4.0 * HANG_BOUND  # seconds of heartbeat, longer than any test
UNTIL_GO_OR_STOP = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))" + UNTIL_GO


@pytest.mark.parametrize("ways", [(), (FROM_HOST,), (FROM_HUB,)], ids=["both ways", "to the hub", "from the hub"])
def test_a_connection_on_which_nothing_comes_is_made_again_and_the_job_goes_on(
    tmp_path: Path, ways: tuple[int, ...]
) -> None:
    with Job(tmp_path, HOSTS, heartbeat=6.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        made = relay.connections
        relay.silence(*ways)
        while relay.connections == made and other.process.poll() is None:
            time.sleep(0.01)
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], (leader.stderr, other.stderr)
        assert other.stderr.count("connecting again") == 1
        assert other.stderr.count(f"the connection to {LEADER} works again") == 1


def test_a_new_connection_that_is_silent_as_well_leaves_time_for_another_one(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, heartbeat=6.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        for _ in range(2):
            made = relay.connections
            relay.silence()
            while relay.connections == made and other.process.poll() is None:
                time.sleep(0.001)  # the next silence comes before anything was said
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], (leader.stderr, other.stderr)


def test_the_leader_stays_until_a_host_whose_connection_fell_silent_has_heard_the_end(tmp_path: Path) -> None:
    heartbeat = 6.0
    assert quiet_bound(heartbeat) > LINGER + 1  # so that a short wait of the leader is not enough
    with Job(tmp_path, HOSTS, heartbeat=heartbeat, constants=CONSTANTS) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        relay.silence(FROM_HUB)
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], (leader.stderr, other.stderr)
        assert "waiting for algo-2 to hear that the job has ended" in leader.stderr


def test_the_leader_stays_until_a_host_whose_connection_broke_at_the_end_has_come_back(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, heartbeat=LONG, constants=CONSTANTS) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        relay.silence(FROM_HUB)
        (tmp_path / "go").touch()
        wait_until(lambda: not running(tmp_path))
        time.sleep(LINGER / 2)  # both parts are told by then, and the leader has begun to leave
        relay.is_closed = True
        relay.reset()
        time.sleep(LINGER)
        relay.is_closed = False
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], (leader.stderr, other.stderr)


def running(folder: Path) -> list[int]:
    pids = [int(path.name.removeprefix("running-")) for path in folder.glob("running-*")]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("late", [False, True], ids=["a stop that ends the job", "a stop after its good end"])
def test_after_a_stop_the_leader_waits_for_nobody_who_cannot_be_reached(tmp_path: Path, late: bool) -> None:
    with Job(tmp_path, HOSTS, heartbeat=LONG, constants=CONSTANTS) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO_OR_STOP)
        other = job.start(HOSTS[1], UNTIL_GO_OR_STOP, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        relay.is_closed = True
        relay.silence(FROM_HUB)
        if late:
            (tmp_path / "go").touch()
            wait_until(lambda: not running(tmp_path))
            time.sleep(LINGER / 2)  # the leader has begun to leave
            assert leader.process.poll() is None
        for host in (leader, other):
            host.process.send_signal(signal.SIGTERM)
        assert leader.finish().exit_code == 0, leader.stderr


def test_a_leader_that_is_silent_for_good_is_said_to_have_vanished_and_not_to_be_connected_to_again(
    tmp_path: Path,
) -> None:
    with Job(tmp_path, HOSTS, heartbeat=6.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        os.kill(leader.process.pid, signal.SIGSTOP)
        assert other.finish().exit_code == UNAVAILABLE
        assert (
            f"{LEADER}, which leads the group, vanished: nothing heard for 6 s (DLC_HEARTBEAT_TIMEOUT)" in other.cause
        )
        assert other.stderr.count("nothing heard for 3 s); connecting again") == 1
        assert other.stderr.count("connecting again") == 1


@pytest.mark.parametrize("heartbeat", [0.5, 5.0, 60.0, 600.0])
def test_a_connection_is_given_up_after_missed_beats_and_in_time_for_a_new_one(heartbeat: float) -> None:
    assert 2 * beat_interval(heartbeat) < quiet_bound(heartbeat) <= heartbeat / 2


def test_silence_of_a_heartbeat_is_too_long_whatever_the_connection() -> None:
    now = time.monotonic()
    timer = HeartbeatTimer(60.0)
    timer.reset(now - 59.0)
    assert not timer.is_expired
    timer.reset(now - 60.0)
    assert timer.is_expired


def test_silence_while_this_process_stood_still_does_not_count() -> None:
    now = time.monotonic()
    for turn, is_forgiven in ((quiet_bound(60.0) + 1, True), (quiet_bound(60.0) - 1, False)):
        timer = HeartbeatTimer(60.0)
        timer.reset(now - 60.0)
        assert timer.forgive_pause(now + turn) == is_forgiven
        assert timer.is_expired == (not is_forgiven)
        assert not timer.forgive_pause(now + turn + 0.1)


def test_a_host_that_need_not_stay_stays_until_the_leader_has_heard_that_its_part_is_done(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, members=HOSTS[:1], heartbeat=20.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO.replace('"go"', '"go-on"'))
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        made = relay.connections
        relay.silence()
        (tmp_path / "go").touch()
        assert other.finish().exit_code == 0
        assert relay.connections > made, "it left without having been heard"
        (tmp_path / "go-on").touch()
        assert leader.finish().exit_code == 0, leader.stderr
