"""reachability: every host is tried by some others before user code starts, and who cannot be reached is named."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from launchers import MULTI_WORKER, Hosts

from dlc_channel.channel import FEWEST_SEATS
from harness.job_folder import HETEROGENEOUS, TORCHRUN, JobFolder
from harness.job_folder import hosts as resourceconfig
from launch import multi_host
from launch.base import settings
from launch.coordination import sockets
from launch.coordination.membership import GroupRules
from launch.coordination.sockets import ProbeListener, open_probe_listener
from launch.plan.request import read_request
from launch.preflight import reachability
from launch.preflight.reachability import Probe

KEY = b"the job's"
HERE, THERE, FOURTH = "127.0.0.2", "127.0.0.3", "127.0.0.4"
# Enough for those that reach each other, also on a slow machine.
TRIED_FOR = {"launch.preflight.reachability.BOUND_SECONDS": 3.0}


# --- who tries whom


@pytest.mark.parametrize("count", [2, 3, reachability.ALL_PAIRS])
def test_in_a_small_job_every_host_tries_every_other(count: int) -> None:
    hosts = [f"algo-{number}" for number in range(count)]
    for host in hosts:
        assert sorted([host, *reachability.choose_targets(hosts, host)]) == sorted(hosts)


@pytest.mark.parametrize("count", [17, 64, 1000])
def test_in_a_large_job_every_host_tries_and_is_tried_by_a_few_others(count: int) -> None:
    hosts = [f"algo-{number}" for number in range(count)]
    tried = Counter(target for host in hosts for target in reachability.choose_targets(hosts, host))
    few = (count - 1).bit_length()
    assert set(tried) == set(hosts)
    assert set(tried.values()) == {few}
    for host in hosts:
        assert len({host, *reachability.choose_targets(hosts, host)}) == few + 1


def test_a_rack_of_a_large_job_that_is_cut_off_is_noticed_wherever_it_begins() -> None:
    hosts = [f"algo-{number}" for number in range(1000)]
    for first in range(0, 1000, 37):
        rack = {hosts[(first + number) % 1000] for number in range(40)}
        assert any(set(reachability.choose_targets(hosts, host)) & rack for host in hosts if host not in rack)


def door_port(folder: Path, config: dict[str, object], least: int = 0, **parameters: object) -> int | None:
    """The port that this host's launcher chooses."""
    job = JobFolder(folder).config("resourceconfig", config).hyperparameters(**parameters)
    request = read_request({**job.environ, "DLC_TF_MULTI_WORKER_PORT": "8891"})
    return multi_host.probe_port(request, GroupRules(request.group_hosts, request.members, least=least))


def test_the_door_is_at_any_port_or_at_the_only_one_that_the_strategy_needs(tmp_path: Path) -> None:
    two = resourceconfig("algo-1", "algo-2")
    assert door_port(tmp_path / "torchrun", two, **TORCHRUN) == 0
    assert door_port(tmp_path / "plain", two) == 0
    assert door_port(tmp_path / "tf", two, **MULTI_WORKER) == 8891


def test_hosts_that_nobody_connects_to_have_no_door(tmp_path: Path) -> None:
    assert door_port(tmp_path / "alone", resourceconfig("algo-1"), **TORCHRUN) is None
    assert door_port(tmp_path / "elastic", resourceconfig("algo-1", "algo-2"), least=1, **TORCHRUN) is None
    data = {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"}
    groups = {"sagemaker_distribution_instance_groups": ["dnn"]}
    assert door_port(tmp_path / "data", data, **TORCHRUN, **groups) is None


# --- one try


@pytest.fixture
def opened() -> Iterator[Callable[..., ProbeListener]]:
    """Opens probe listeners, and closes them at the end."""
    with ExitStack() as stack:

        def open_one(host: str, address: str = THERE, key: bytes = KEY) -> ProbeListener:
            found = open_probe_listener(host, (address,), 0, key)
            assert found
            stack.callback(found.close)
            return found

        yield open_one


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """Something else that listens where the probe listener should be."""
    with socket.create_server((THERE, 0)) as server:
        yield server


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that fails does so soon."""
    monkeypatch.setattr(reachability, "BOUND_SECONDS", 0.6)
    monkeypatch.setattr(reachability, "ATTEMPT_SECONDS", 0.3)


def tried(port: int, host: str = THERE, came_from: str = THERE) -> Probe:
    """A try from HERE, finished."""
    one = Probe(HERE, host, {"door": port, "address": came_from}, KEY)
    one.start()
    one.join(30)
    assert not one.is_alive()
    return one


def test_a_host_that_is_there_is_reached(opened: Callable[..., ProbeListener]) -> None:
    assert tried(opened(THERE).port).has_reached


def test_a_host_whose_name_does_not_resolve_is_reached_where_it_came_from(opened: Callable[..., ProbeListener]) -> None:
    assert tried(opened("no-such-host.invalid").port, host="no-such-host.invalid").has_reached


@pytest.mark.usefixtures("hurried")
def test_a_resolver_that_hangs_holds_up_no_host_whose_address_is_known(
    opened: Callable[..., ProbeListener], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "launch.discovery.host_addresses.resolve", lambda host: time.sleep(2 * reachability.BOUND_SECONDS) or ()
    )
    assert tried(opened("algo-1").port, host="algo-1").has_reached


@pytest.mark.usefixtures("hurried")
def test_a_host_without_name_and_address_is_said_not_to_resolve() -> None:
    assert "no-such-host.invalid (port 1): it does not resolve" in str(tried(1, "no-such-host.invalid", ""))


@pytest.mark.usefixtures("hurried")
def test_a_closed_door_is_named_with_address_port_and_reason(opened: Callable[..., ProbeListener]) -> None:
    closed = opened(THERE)
    closed.close()
    one = tried(closed.port)
    assert not one.has_reached
    assert str(one) == f"{THERE} ({THERE}, port {closed.port}): Connection refused"


@pytest.mark.usefixtures("hurried")
def test_who_takes_the_connection_and_says_nothing_is_not_taken_for_the_host(stranger: socket.socket) -> None:
    one = tried(stranger.getsockname()[1])
    assert not one.has_reached
    assert "it takes the connection and says nothing" in str(one)


@pytest.mark.usefixtures("hurried")
def test_who_talks_without_end_does_not_hold_the_host_up(stranger: socket.socket) -> None:
    def talk() -> None:
        while True:
            try:
                caller, _ = stranger.accept()
                with caller:
                    while caller.send(b"x"):
                        time.sleep(0.01)
            except OSError:
                if stranger.fileno() < 0:
                    return

    threading.Thread(target=talk, daemon=True).start()
    assert not tried(stranger.getsockname()[1]).has_reached
    stranger.shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("hurried")
def test_another_jobs_launcher_is_not_taken_for_the_host(opened: Callable[..., ProbeListener]) -> None:
    one = tried(opened(THERE, key=b"another job's").port)
    assert not one.has_reached
    assert "what answers is not this job's launcher: it does not hold the job's token" in str(one)


@pytest.mark.usefixtures("hurried")
def test_another_host_of_the_job_is_not_taken_for_the_host(opened: Callable[..., ProbeListener]) -> None:
    one = tried(opened("algo-7").port)
    assert not one.has_reached
    assert "algo-7 answers in its place" in str(one)


def test_strangers_in_numbers_keep_no_host_from_its_answer(opened: Callable[..., ProbeListener]) -> None:
    besieged = opened(THERE)
    with ExitStack() as stack:
        for _ in range(FEWEST_SEATS + 20):
            stack.enter_context(socket.create_connection((THERE, besieged.port), 10))
        nonsense = stack.enter_context(socket.create_connection((THERE, besieged.port), 10))
        nonsense.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        assert tried(besieged.port).has_reached


def test_a_closed_door_leaves_no_listener_and_no_connection(opened: Callable[..., ProbeListener]) -> None:
    closed = opened(THERE)
    with socket.create_connection((THERE, closed.port), 10) as caller:
        assert caller.recv(100).startswith(b"dlc/2 probe ")
        closed.close()
        assert caller.recv(100) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((THERE, closed.port), 10)
    closed.close()  # once more changes nothing


def test_a_door_whose_port_is_taken_opens_at_another_one(stranger: socket.socket) -> None:
    taken = stranger.getsockname()[1]
    other = open_probe_listener(THERE, (THERE,), taken, KEY)
    assert other
    assert other.port != taken
    other.close()


def test_a_host_whose_name_means_itself_alone_listens_for_the_others_too() -> None:
    assert sockets.addresses_to_listen_on("algo-1", ("127.0.1.1",)) == ("",)
    assert sockets.addresses_to_listen_on("algo-1", ()) == ("",)
    assert sockets.addresses_to_listen_on("algo-1", ("127.0.1.1", "10.0.0.1")) == ("127.0.1.1", "10.0.0.1")
    assert sockets.addresses_to_listen_on("127.0.0.2", ("127.0.0.2",)) == ("127.0.0.2",)


# --- launchers


LISTENING = """
import os, sys
own = {os.readlink(f"/proc/{os.getppid()}/fd/{fd}") for fd in os.listdir(f"/proc/{os.getppid()}/fd")
       if os.path.islink(f"/proc/{os.getppid()}/fd/{fd}")}
rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
print(*{int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own})
"""
CUT = " && ".join(
    (
        "ip link set lo up",
        "ip rule add priority 2 lookup local",  # before it, what follows; as long as there is one at 0, it comes first
        f"ip rule add priority 1 from {HERE} to {THERE} unreachable",
        f"ip rule add priority 1 from {THERE} to {HERE} unreachable",
        f"ip rule add priority 1 from {HERE} to {FOURTH} unreachable",
        "ip rule del priority 0",
        "echo cut",
        "exec sleep 600",
    )
)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Hosts]:
    """Three hosts of which the second and the third do not reach each other."""
    with cut_off(Hosts(tmp_path, 3)) as hosts:
        yield hosts


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Hosts]:
    """The same, and the second does not reach the fourth."""
    with cut_off(Hosts(tmp_path, 4)) as hosts:
        yield hosts


@contextmanager
def cut_off(hosts: Hosts) -> Iterator[Hosts]:
    """Put them into a network of their own, where some pairs are cut."""
    alone = subprocess.run(["unshare", "--net", "ip", "rule"], capture_output=True, text=True)
    if alone.returncode:
        pytest.skip(f"no network namespace with rules of its own can be made here: {alone.stderr.strip()}")
    with subprocess.Popen(["unshare", "--net", "sh", "-c", CUT], stdout=subprocess.PIPE, text=True) as network:
        try:
            assert network.stdout
            assert network.stdout.readline() == "cut\n"
            hosts.constants = TRIED_FOR
            hosts.below = ("nsenter", f"--net=/proc/{network.pid}/ns/net")
            yield hosts
        finally:
            network.kill()
            for process in hosts.processes:
                process.kill()
                process.wait()


def test_doors_are_shut_when_the_users_code_starts(tmp_path: Path) -> None:
    """What is left: the coordinator, and on the other hosts a port that shows that the launcher lives."""
    hosts = Hosts(tmp_path, 3)
    hosts.configure(LISTENING, **MULTI_WORKER)
    environ = hosts.jobs[0].environ
    hosts.start()
    ends = hosts.ends()
    assert [code for code, _, _ in ends] == [0, 0, 0]
    listening = [out.split() for _, out, _ in ends]
    assert listening[0] == [environ["DLC_GROUP_PORT"]]
    assert [len(opened) for opened in listening[1:]] == [1, 1]
    assert all(str(settings.port_of(environ, settings.TF_MULTI_WORKER_PORT)) not in opened for opened in listening)


def test_a_pair_that_is_cut_is_named_on_every_host_and_nothing_starts(three: Hosts) -> None:
    three.configure("print('started')", **MULTI_WORKER)
    three.start()
    ends = three.ends()
    for code, out, failure in ends:
        assert (code, out) == (78, "")
        named = [f"{one} cannot reach {other} ({other}, port " for one, other in ((HERE, THERE), (THERE, HERE))]
        assert any(pair in failure for pair in named), failure
        assert "Network is unreachable; check the security group" in failure
    assert "the job failed on" in ends[0][2]


@pytest.mark.parametrize(
    ("strategy", "environ"), [({}, {}), (MULTI_WORKER, {"DLC_PREFLIGHT": "warn"})], ids=["plain", "warn"]
)
def test_a_plain_job_is_warned_of_a_cut_pair_and_so_is_who_asked_for_it(
    three: Hosts, strategy: dict[str, bool], environ: dict[str, str]
) -> None:
    three.configure("print('started')", **strategy)
    for job in three.jobs:
        job.env(**environ)
    three.start()
    ends = [(*process.communicate(timeout=60), process.returncode) for process in three.processes]
    assert [(out, code) for out, _, code in ends] == [("started\n", 0)] * 3
    assert f"dlc: preflight: {HERE} cannot reach {THERE} (" in ends[1][1]
    assert f"dlc: preflight: {THERE} cannot reach {HERE} (" in ends[2][1]
    assert "cannot reach" not in ends[0][1]


def test_preflight_names_a_cut_pair_on_every_host(three: Hosts) -> None:
    three.configure("print('started')", **MULTI_WORKER)
    three.start("--preflight")
    for code, out, _ in three.ends():
        assert code == 78
        assert "error: 127.0.0." in out
        assert "cannot reach" in out
        assert "started" not in out


def test_a_stop_of_preflight_while_hosts_try_each_other_is_told_to_the_others(four: Hosts) -> None:
    four.configure("print('started')", **MULTI_WORKER)
    for job in four.jobs:
        job.env(DLC_HEARTBEAT_TIMEOUT="600")
    four.constants = {"launch.preflight.reachability.BOUND_SECONDS": 60.0}
    four.start("--preflight")
    wait_until_trying(four.processes[1])
    four.processes[1].terminate()
    ends = four.ends()
    assert ends[1][0] == 143
    assert "stopped by SIGTERM" in ends[0][1]


def wait_until_trying(launcher: subprocess.Popen[str]) -> None:
    """Until this launcher tries the two hosts that it cannot reach: a thread for each, beside three of its own.

    While hosts are missing it has four, and a fifth one for a moment.
    """
    deadline, in_turn = time.monotonic() + 60, 0
    while in_turn < 30:
        assert time.monotonic() < deadline
        in_turn = in_turn + 1 if len(list(Path(f"/proc/{launcher.pid}/task").iterdir())) == 5 else 0
        time.sleep(0.01)
