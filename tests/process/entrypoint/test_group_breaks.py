"""Groups whose connections break, whose port is taken, whose hosts hold another token; strangers in numbers."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from hosts import LEADER, Job
from relay import Relay
from supervised import HANG_BOUND, wait_until

from dlc_channel.channel import FEWEST_SEATS, Channel, WrongProofError
from dlc_channel.keys import job_key
from harness.ports import free_port
from launch import multi_host, signals
from launch.base.errors import SOFTWARE, STOPPED, UNAVAILABLE, Failure, Outcome
from launch.coordination.coordinator import Coordinator
from launch.coordination.member import Member
from launch.coordination.membership import GroupRules, MemberConfig, Membership
from launch.coordination.sockets import group_channel, open_listener

HOSTS = (LEADER, "algo-2")
UNTIL_GO = """
import os, pathlib, time
pathlib.Path(f"running-{os.getpid()}").touch()
launcher = os.getppid()  # a test may kill it
while not os.path.exists("go") and os.getppid() == launcher: time.sleep(0.01)
"""
# For hosts that meet what is not their job's, in the order of the launcher's own bounds. None waits for its `timeout`,
# which is beyond what a test waits.
SURE_SOON = {
    "launch.coordination.member.HELLO_SECONDS": 0.5,
    "launch.coordination.sockets.SURE_AFTER_SECONDS": 0.5,
    "launch.coordination.sockets.HOPELESS_AFTER_SECONDS": 4.0,
}


def wait_until_running(folder: Path, count: int) -> None:
    deadline = time.monotonic() + HANG_BOUND
    while len(running := list(folder.glob("running-*"))) < count:
        assert time.monotonic() < deadline, f"{len(running)} of {count} hosts run their script"
        time.sleep(0.01)


def has_answer(channel: Channel) -> bool:
    """Whether the coordinator has said something. Raises what is wrong with it."""
    channel.flush()
    return bool(channel.receive())


def test_nothing_is_looked_up_where_the_hosts_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the name that a stranger gives itself, nor that of a host which joins: a resolver may take minutes."""
    asked: list[str] = []
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo", "getfqdn"):
        monkeypatch.setattr(socket, name, lambda *_, **__: asked.append(threading.current_thread().name))
    listener, key = open_listener("127.0.0.1", 0), job_key({"DLC_JOB_TOKEN": "x"}, HOSTS)
    hub = Coordinator([listener], key, Membership(GroupRules(HOSTS, HOSTS)), 60.0)
    join = {"kind": "join", "host": HOSTS[1], "instance": "1", "hub": "", "life sign": ["127.0.0.1", 1], "facts": {}}
    place = listener.getsockname()
    hub.start()
    with ExitStack() as stack:
        for own, refusal in ((b"another key" * 3, WrongProofError), (key, None)):
            sock = stack.enter_context(socket.socket())
            sock.connect(place)
            channel = group_channel(sock, own, False, HOSTS[1])
            channel.send(join)
            with pytest.raises(refusal) if refusal else contextlib.nullcontext():
                wait_until(partial(has_answer, channel))
    wait_until(lambda: bool(hub._away))
    hub.close(0.0)
    assert hub.claims.describe(HOSTS[1])
    assert asked == []


def test_a_connection_that_breaks_is_made_again_and_the_job_goes_on(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        for _ in range(3):
            made = relay.connections
            relay.reset()
            while relay.connections == made:
                time.sleep(0.01)
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0]
        assert "connecting again" in other.stderr


def test_what_happened_while_the_connection_was_broken_is_heard_afterwards(tmp_path: Path) -> None:
    fails = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(7)"
    with Job(tmp_path, HOSTS, heartbeat=20.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO.replace("'go'", "'never'").replace('"go"', '"never"'))
        other = job.start(HOSTS[1], UNTIL_GO[:0] + f"open('running-2', 'w')\n{fails}", join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        relay.is_closed = True
        relay.reset()
        (tmp_path / "go").touch()
        time.sleep(1)
        relay.is_closed = False
        assert [leader.finish().exit_code, other.finish().exit_code] == [7, 7]
        assert "on algo-2 exited with code 7" in leader.cause


def test_a_connection_that_stays_broken_ends_the_job_on_both_sides(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, heartbeat=2.0) as job, Relay(job.join["port"]) as relay:
        leader = job.start(HOSTS[0], UNTIL_GO)
        other = job.start(HOSTS[1], UNTIL_GO, join={"port": relay.port})
        wait_until_running(tmp_path, 2)
        relay.is_closed = True
        relay.reset()
        assert [leader.finish().exit_code, other.finish().exit_code] == [UNAVAILABLE, UNAVAILABLE]
        assert "algo-2 vanished" in leader.cause
        assert f"{LEADER}, which leads the group, vanished" in other.cause


def test_a_host_with_another_token_ends_soon_and_the_others_are_warned_and_wait_for_the_right_one(
    tmp_path: Path,
) -> None:
    with Job(tmp_path, HOSTS, timeout=HANG_BOUND * 2, constants=SURE_SOON) as job:
        leader = job.start(HOSTS[0], "pass")
        wrong = job.start(HOSTS[1], "pass", environ={"DLC_JOB_TOKEN": "of another job"})
        assert wrong.finish().exit_code == UNAVAILABLE
        assert "does not hold the job's token" in wrong.cause
        assert "DLC_JOB_TOKEN" in wrong.cause
        right = job.start(HOSTS[1], "pass")  # a stranger could have said what the wrong one said
        assert [leader.finish().exit_code, right.finish().exit_code] == [0, 0], leader.stderr
        assert leader.stderr.count("warning: algo-2 was claimed once") == 1
        assert "give every host the same DLC_JOB_TOKEN" in leader.stderr


def test_a_host_that_never_came_is_named_with_who_claimed_to_be_it(tmp_path: Path) -> None:
    with Job(
        tmp_path, HOSTS, timeout=8.0, constants={**SURE_SOON, "launch.coordination.sockets.HOPELESS_AFTER_SECONDS": 1.0}
    ) as job:
        leader = job.start(HOSTS[0], "pass")
        wrong = job.start(HOSTS[1], "pass", environ={"DLC_JOB_TOKEN": "of another job"})
        assert [wrong.finish().exit_code, leader.finish().exit_code] == [UNAVAILABLE, UNAVAILABLE]
        assert "algo-2 did not join the job within 8 s" in leader.cause
        assert "without the job's token" in leader.cause


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_in_use_is_said_on_both_hosts_soon(tmp_path: Path, says: bytes) -> None:
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server((LEADER, 0)))
        own = {"port": taken.getsockname()[1], "timeout": HANG_BOUND * 2, "heartbeat": 2.0}
        job = stack.enter_context(Job(tmp_path, HOSTS, constants=SURE_SOON, **own))
        leader, other = (job.start(host, "pass") for host in HOSTS)
        taken.settimeout(0.1)
        while says and other.process.poll() is None:
            try:
                connection, _ = taken.accept()
            except TimeoutError:
                continue
            with connection:
                connection.sendall(says)
        for host in (leader, other):
            assert host.finish().exit_code == UNAVAILABLE
            assert "DLC_GROUP_PORT" in host.cause


@pytest.mark.parametrize("files", ["", "256"], ids=["many", "256"])
def test_strangers_cannot_take_the_seats_or_the_descriptors_of_the_jobs_hosts(tmp_path: Path, files: str) -> None:
    below = ("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh") if files else ()
    with Job(tmp_path, HOSTS, timeout=HANG_BOUND) as job:
        leader = job.start(HOSTS[0], UNTIL_GO, below=below)
        crowd: list[socket.socket] = []
        try:
            deadline = time.monotonic() + HANG_BOUND
            while len(crowd) < FEWEST_SEATS + 100 and time.monotonic() < deadline:
                try:
                    crowd.append(socket.create_connection((LEADER, job.join["port"]), 5))
                except OSError:
                    time.sleep(0.05)
            other = job.start(HOSTS[1], UNTIL_GO)
            wait_until_running(tmp_path, 2)
            (tmp_path / "go").touch()
            assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0]
        finally:
            for sock in crowd:
                sock.close()


@pytest.mark.parametrize("early", [0, 1], ids=["the leader fails", "the other fails"])
def test_a_host_that_fails_early_tells_it_to_one_that_a_busy_engine_starts_late(early: int) -> None:
    signals.arm()
    rules, port = GroupRules(HOSTS, HOSTS), free_port()
    fails, comes = (
        Member(MemberConfig(host, rules, job_key({}, HOSTS), port, HANG_BOUND))
        for host in (HOSTS[early], HOSTS[1 - early])
    )
    late = threading.Timer(3.0, comes.start, ({},))
    late.start()
    multi_host._announce(fails, Failure("no such script", exit_code=65), HANG_BOUND)
    late.join()
    try:
        wait_until(lambda: comes.end is not None)
        assert comes.end
        assert "no such script" in comes.end.cause
    finally:
        comes.close()


def test_a_stop_of_one_host_is_known_on_the_other_at_once_and_what_it_ended_there_too() -> None:
    signals.arm()
    rules, port = GroupRules(HOSTS, HOSTS), free_port()
    places = [MemberConfig(host, rules, job_key({}, HOSTS), port, HANG_BOUND) for host in HOSTS]
    groups = [Member(place) for place in places]
    try:
        for group in groups:
            group.start({})
        groups[1].tell_stopping(signal.SIGTERM)
        assert select.select([groups[0]], [], [], HANG_BOUND)[0]
        assert [group.stopping_host for group in groups] == [HOSTS[1], HOSTS[1]]
        assert groups[0].verdict() is None  # it has its own time to save
        groups[1].tell_ended_early("worker rank 1 was ended")
        for group in groups:
            group.report(None, STOPPED)
        assert select.select([groups[0]], [], [], HANG_BOUND)[0]
        verdict = groups[0].verdict()
        assert verdict is not None
        assert (verdict.outcome, verdict.kind) == (Outcome(0, stopped=True), STOPPED)
        assert [group.ended_by_stop() for group in groups] == ["worker rank 1 was ended", ""]
    finally:
        for group in groups[::-1]:
            group.close()


def test_a_failure_after_another_hosts_part_had_ended_well_names_that_host() -> None:
    """A rank that leaves in the middle with 0 is why the others fail."""
    signals.arm()
    rules, port = GroupRules(HOSTS, HOSTS), free_port()
    groups = [Member(MemberConfig(host, rules, job_key({}, HOSTS), port, HANG_BOUND)) for host in HOSTS]
    try:
        for group in groups:
            group.start({})
        groups[1].report(None)
        coordinator = groups[0]._coordinator
        assert coordinator is not None
        wait_until(lambda: coordinator.membership.done == {HOSTS[1]})
        groups[0].report(Failure("worker rank 0 exited with code 1", host=HOSTS[0]))
        wait_until(lambda: all(group.end is not None for group in groups))
        for group in groups:
            assert group.end is not None
            assert group.end.cause.endswith("; before that the part of algo-2 had ended with code 0")
    finally:
        for group in groups[::-1]:
            group.close()


def test_an_error_of_ours_in_the_hub_is_called_that_and_no_host_is_said_to_have_vanished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signals.arm()
    rules, port = GroupRules(HOSTS[:1], HOSTS[:1]), free_port()
    group = Member(MemberConfig(HOSTS[0], rules, job_key({}, HOSTS), port, HANG_BOUND))
    try:
        group.start({})
        wait_until(lambda: group.facts != {})
        monkeypatch.setattr(Coordinator, "_tell_news", lambda _: os.environ["NO_SUCH_VARIABLE"])
        wait_until(lambda: group.end is not None)
        assert group.end is not None
        assert group.end.exit_code == SOFTWARE
        assert group.end.cause == "internal error where the hosts meet: KeyError: 'NO_SUCH_VARIABLE'"
    finally:
        group.close()


def test_a_failure_with_restarts_left_starts_the_processes_again_on_every_host(tmp_path: Path) -> None:
    source = """
import os, pathlib, sys, time
name = "{name}"
attempt = len(list(pathlib.Path().glob(name + "-*")))
pathlib.Path(f"{name}-{attempt}").touch()
if attempt == 0:
    while not pathlib.Path("first-0").exists(): time.sleep(0.02)
    sys.exit(5) if name == "second" else time.sleep(600)
"""
    with Job(tmp_path, HOSTS, rules={"restarts": 1}) as job:
        hosts = [
            job.start(host, source.replace("{name}", name))
            for host, name in zip(HOSTS, ("first", "second"), strict=True)
        ]
        assert [host.finish().exit_code for host in hosts] == [0, 0], [host.stderr for host in hosts]
        assert sorted(path.name for path in tmp_path.glob("*-[0-9]")) == ["first-0", "first-1", "second-0", "second-1"]


def test_a_job_that_fails_again_and_again_ends_with_its_failure(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, rules={"restarts": 2}) as job:
        hosts = [job.start(host, "import sys; open('tries', 'a').write('x'); sys.exit(5)") for host in HOSTS]
        assert [host.finish().exit_code for host in hosts] == [5, 5]
        assert 3 <= len((tmp_path / "tries").read_text()) <= 6


def test_an_elastic_group_goes_on_when_a_host_dies_and_takes_it_in_again(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, rules={"least": 1}, heartbeat=2.0) as job:
        leader = job.start(HOSTS[0], UNTIL_GO)
        wait_until_running(tmp_path, 1)
        late = job.start(HOSTS[1], UNTIL_GO)
        wait_until_running(tmp_path, 2)
        late.process.kill()
        time.sleep(3)  # longer than the heartbeat
        assert leader.process.poll() is None
        again = job.start(HOSTS[1], UNTIL_GO)
        wait_until_running(tmp_path, 3)
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, again.finish().exit_code] == [0, 0]


# Its processes end with the container, which a test's launcher has none of.
IN_A_CONTAINER = """
import os, pathlib, threading, time
launcher = os.getppid()
def end_with_it():
    while os.getppid() == launcher: time.sleep(0.01)
    os._exit(1)
threading.Thread(target=end_with_it, daemon=True).start()
pathlib.Path(f"running-{os.getpid()}").touch()
while not pathlib.Path("go").exists(): time.sleep(0.01)
"""


@pytest.mark.parametrize("its_connection", ["is closed", "stands"])
def test_a_container_that_is_killed_and_started_again_ends_the_job_soon_with_that_reason(
    tmp_path: Path, its_connection: str
) -> None:
    with Job(tmp_path, HOSTS, heartbeat=6.0) as job:
        leader = job.start(HOSTS[0], IN_A_CONTAINER)
        other = job.start(HOSTS[1], IN_A_CONTAINER)
        wait_until_running(tmp_path, 2)
        other.process.send_signal(signal.SIGKILL if its_connection == "is closed" else signal.SIGSTOP)
        again = job.start(HOSTS[1], IN_A_CONTAINER)
        for host in (leader, again):
            assert host.finish().exit_code == UNAVAILABLE
            assert "algo-2 vanished: its launcher was killed, and started again" in host.cause


@pytest.mark.parametrize("its_connection", ["is closed", "stands"])
def test_with_restarts_left_a_container_that_is_started_again_is_taken_in(tmp_path: Path, its_connection: str) -> None:
    with Job(tmp_path, HOSTS, rules={"restarts": 1}, heartbeat=6.0) as job:
        leader = job.start(HOSTS[0], IN_A_CONTAINER)
        other = job.start(HOSTS[1], IN_A_CONTAINER)
        wait_until_running(tmp_path, 2)
        other.process.send_signal(signal.SIGKILL if its_connection == "is closed" else signal.SIGSTOP)
        again = job.start(HOSTS[1], IN_A_CONTAINER)
        wait_until_running(tmp_path, 4)
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, again.finish().exit_code] == [0, 0], leader.stderr + again.stderr


def test_two_hosts_of_one_name_are_told_apart_from_one_that_was_started_again(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, rules={"restarts": 1}) as job:
        hosts = [job.start(host, UNTIL_GO) for host in HOSTS]
        wait_until_running(tmp_path, 2)
        double = job.start(HOSTS[1], UNTIL_GO)
        assert double.finish().exit_code == UNAVAILABLE
        assert "two hosts use one name" in double.cause
        (tmp_path / "go").touch()
        assert [host.finish().exit_code for host in hosts] == [0, 0]


def test_nobody_listens_on_addresses_that_are_not_the_jobs(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS) as job:
        hosts = [job.start(host, UNTIL_GO) for host in HOSTS]
        wait_until_running(tmp_path, 2)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.9", job.join["port"])) != 0
        (tmp_path / "go").touch()
        assert [host.finish().exit_code for host in hosts] == [0, 0]
