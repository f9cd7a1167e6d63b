"""Whatever a stranger sends to the ports of a job: it begins, runs and ends as if nobody had come."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crowd import LOOPBACK, Crowd, ports_of
from hosts import LEADER, Host, Job
from relay import Relay
from stranger import ATTACKS, MOST_HELD
from supervised import HANG_BOUND, wait_until
from test_group_breaks import UNTIL_GO, wait_until_running
from test_programs import ask
from test_remote_exec_of_daemons import Pair

from harness.ports import free_port
from launch.base import process_spec

pytestmark = pytest.mark.long
HOSTS = (LEADER, "algo-2")
# So that a host asks its leader often whom it follows
ASKS_OFTEN = {"launch.coordination.leader_scout.PAUSE_SECONDS": 0.1}
FEW_FILES = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
TRIES = 100
LONG = 12.0  # seconds; longer than a claim may have counted for
FEW_TRIES = 3  # where a launcher only shows that it lives: nobody is let in, so each takes its time
SECRET = "5ec4e7"


def attacked_ports(host: Host, least: int) -> list[tuple[str, int]]:
    """All at which its launcher listens, once there are so many."""
    found: list[tuple[str, int]] = []

    def has_opened() -> bool:
        with suppress(OSError):  # it has just been started
            found[:] = ports_of(host.process.pid)
        return len(found) >= least

    wait_until(has_opened)
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a member of a job has sent to its leader, from the greeting to the goodbye."""
    folder = tmp_path_factory.mktemp("recorded")
    with Job(folder, HOSTS) as job, Relay(job.join["port"]) as relay:
        hosts = [job.start(HOSTS[0], "pass"), job.start(HOSTS[1], "pass", join={"port": relay.port})]
        assert [host.finish().exit_code for host in hosts] == [0, 0]
        (folder / "sent").write_bytes(relay.sent)
    assert b'"join"' in relay.sent
    return str(folder / "sent")


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_job_of_two_hosts_trains_under_attack(tmp_path: Path, recorded: str, attack: str) -> None:
    """From before its second host comes until its end, on all ports of both launchers. The first may open few files."""
    with Job(tmp_path, HOSTS, timeout=HANG_BOUND) as job:
        leader = job.start(HOSTS[0], UNTIL_GO, join={"probe_port": free_port()}, below=FEW_FILES)
        with Crowd(attack, attacked_ports(leader, 2), HOSTS[1], recorded) as crowd:
            crowd.wait_for(TRIES)
            other = job.start(HOSTS[1], UNTIL_GO)
            wait_until_running(tmp_path, 2)
            with Crowd(attack, attacked_ports(other, 1), HOSTS[1], recorded) as others:  # where it shows that it lives
                crowd.wait_for(TRIES)
                others.wait_for(FEW_TRIES)
                (tmp_path / "go").touch()
                assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], leader.stderr
        assert "Traceback" not in leader.stderr + other.stderr


def test_a_stranger_that_claims_to_be_the_missing_host_for_long_ends_nothing(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, timeout=HANG_BOUND) as job:
        leader = job.start(HOSTS[0], UNTIL_GO)
        with Crowd("false proofs", attacked_ports(leader, 1), HOSTS[1]) as crowd:
            time.sleep(LONG)
            crowd.wait_for(TRIES)
            other = job.start(HOSTS[1], UNTIL_GO)
            wait_until_running(tmp_path, 2)
        (tmp_path / "go").touch()
        assert [leader.finish().exit_code, other.finish().exit_code] == [0, 0], leader.stderr
        assert leader.stderr.count("warning: algo-2 was claimed") == 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_host_that_waits_for_its_leader_under_attack_finds_it(tmp_path: Path, recorded: str, attack: str) -> None:
    """Meanwhile it says at the group's port whom it follows; a stranger sits in the leader's place, too."""
    leader, waits = LEADER, "127.0.0.2"
    with Job(tmp_path, (leader, waits), timeout=HANG_BOUND, constants=ASKS_OFTEN) as job:
        port = job.join["port"]
        with socket.create_server((leader, port)) as stranger:
            stranger.settimeout(0.1)
            other = job.start(waits, UNTIL_GO)
            greeted = 0
            while greeted < FEW_TRIES:
                with suppress(TimeoutError), stranger.accept()[0] as sock:
                    sock.sendall(b"dlc/2 probe " + b"a" * 64 + b"\n" + b"a" * 64 + b"\n")
                    greeted += 1
        wait_until(lambda: (waits, port) in ports_of(other.process.pid))
        with Crowd(attack, [(waits, port)], leader, recorded) as crowd:
            crowd.wait_for(FEW_TRIES)
            first = job.start(leader, UNTIL_GO)
            wait_until_running(tmp_path, 2)
        (tmp_path / "go").touch()
        assert [first.finish().exit_code, other.finish().exit_code] == [0, 0], other.stderr


def test_an_elastic_job_that_runs_hears_no_stranger(tmp_path: Path) -> None:
    with Job(tmp_path, HOSTS, rules={"least": 1}) as job:
        leader = job.start(HOSTS[0], UNTIL_GO)
        wait_until_running(tmp_path, 1)
        with Crowd("false proofs", attacked_ports(leader, 1), HOSTS[1]) as crowd:
            time.sleep(LONG)
            crowd.wait_for(TRIES)
            assert leader.process.poll() is None
            (tmp_path / "go").touch()
            assert leader.finish().exit_code == 0, leader.stderr


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_start_of_mpis_daemon_hears_nobody_but_its_leader(tmp_path: Path, recorded: str, attack: str) -> None:
    pair = Pair(tmp_path)
    pair.daemon(f"touch {tmp_path}/started")
    try:
        pair.serve()
        pair.connect().close()
        with Crowd(attack, [(LOOPBACK, pair.port)], HOSTS[1], recorded) as crowd:
            crowd.wait_for(TRIES)
            assert not (tmp_path / "started").exists()
            assert pair.run() == (0, "")
        assert (tmp_path / "started").exists()
    finally:
        for process in pair.started:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


@pytest.fixture
def rendezvous() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Horovod's rendezvous server, as the launcher starts it for several hosts, and its port. It may open few files."""
    port = free_port()
    argv = [
        *FEW_FILES,
        sys.executable,
        "-I",
        "-S",
        process_spec.program_path("horovod_rendezvous"),
        str(port),
        "2",
        "1",
        "2",
        LOOPBACK,
    ]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={"DLC_RENDEZVOUS_SECRET": SECRET})
    with process:
        wait_until(lambda: bool(ports_of(process.pid)))
        yield process, port
        process.kill()


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack != "replay"])
def test_horovods_meeting_place_serves_its_ranks_under_attack(
    rendezvous: tuple[subprocess.Popen[str], int], attack: str
) -> None:
    process, port = rendezvous
    url = f"http://{LOOPBACK}:{port}/{SECRET}/global/0"
    ask(url, "PUT", b"where rank 0 is")
    with Crowd(attack, [(LOOPBACK, port)]) as crowd:
        crowd.wait_for(TRIES)
        assert ask(url) == b"where rank 0 is"
    process.kill()
    assert process.communicate(timeout=HANG_BOUND)[1] == ""


def test_more_connections_than_it_may_open_files_keep_no_rank_from_horovods_meeting_place(
    rendezvous: tuple[subprocess.Popen[str], int],
) -> None:
    _, port = rendezvous
    url = f"http://{LOOPBACK}:{port}/{SECRET}/global/0"
    with Crowd("held", [(LOOPBACK, port)]) as crowd:
        for value in (b"where rank 0 is", b"where it is now"):
            crowd.wait_for(MOST_HELD)
            ask(url, "PUT", value)
            assert ask(url) == value
