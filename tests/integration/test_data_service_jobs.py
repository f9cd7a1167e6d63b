"""Jobs whose data hosts make the batches of their training hosts: each sample once, whatever happens to a data host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.engine import docker
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPT = Path(__file__).parent / "scripts" / "data_hosts.py"
DATA, TRAINING = ("algo-1", "algo-2"), ("algo-3", "algo-4")
SAMPLES = 4000
CUT_SECONDS, STILL_SECONDS = 15.0, 30.0
LISTENING = """
for family in ("tcp", "tcp6"):
    for line in list(open(f"/proc/net/{family}"))[1:]:
        address, state = line.split()[1], line.split()[3]
        if state == "0A":
            print(int(address.rpartition(":")[2], 16))
"""
# What says nothing, half a greeting, garbage: at every port that listens there, for as long as the job lasts.
STRANGERS = """
import contextlib, os, socket, sys, time
strangers = []
for port in sys.argv[2:]:
    for said in 5 * (b"", b"dlc-data-1", bytes(5000), b"GET / HTTP/1.1\\r\\n\\r\\n"):
        with contextlib.suppress(OSError):
            strangers.append(socket.create_connection((sys.argv[1], port), 1))
            strangers[-1].sendall(said)
print(len(strangers), flush=True)
if os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(600)
"""


def job(image: Image, folder: Path, pods: bool = False, **arguments: object) -> Job:
    """Two data hosts and two training hosts, and arguments of the script."""
    parameters = {
        **arguments,
        "sagemaker_torch_distributed_enabled": True,
        "sagemaker_distribution_instance_groups": ["dnn"],
    }
    environment = {"DLC_HEARTBEAT_TIMEOUT": "60", "DLC_STOP_GRACE": "5"}
    groups = {"data": 2, "dnn": 2}
    return Job(image, folder, SCRIPT, groups=groups, hyperparameters=parameters, environment=environment, pods=pods)


@contextmanager
def held(image: Image, folder: Path, pods: bool = False) -> Iterator[Job]:
    """A job whose ranks wait for `let_go_on` after ten batches: a fault comes before the end on slow hosts too."""
    with job(image, folder, pods=pods, pause=0.01, hold=1) as running:
        for host in TRAINING:
            running.wait_for_line("ten batches are here", host)
        yield running


def assert_each_sample_once(running: Job) -> None:
    ranks = running.metrics()
    assert [rank["rank"] for rank in ranks] == [0, 1]
    for epoch in range(2):
        ids = [number for rank in ranks for number in rank["epochs"][epoch]]
        assert len(ids) == SAMPLES
        assert sorted(ids) == list(range(SAMPLES))
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1], "the order of both epochs is the same"


@pytest.mark.core
def test_every_sample_of_an_epoch_reaches_one_rank_once_and_all_hosts_end(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path) as running:
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)
        assert not any(running.failure(host) for host in running.hosts)


@pytest.mark.long
def test_a_data_host_whose_network_is_cut_for_a_while_costs_no_sample(image: Image, tmp_path: Path) -> None:
    with held(image, tmp_path) as running:
        with running.cut(DATA[1]):
            running.let_go_on(*TRAINING)
            time.sleep(CUT_SECONDS)  # this is what is tested
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)


def test_a_data_host_that_is_killed_costs_no_sample_and_the_job_ends_well(image: Image, tmp_path: Path) -> None:
    with held(image, tmp_path, pods=True) as running:
        running.kill(DATA[1])
        running.let_go_on(*TRAINING)
        codes = running.wait()
        assert [codes[host] for host in (DATA[0], *TRAINING)] == [0, 0, 0]
        assert_each_sample_once(running)
        assert f"the job goes on without {DATA[1]}, a data host: {DATA[1]} vanished" in running.log(TRAINING[0])
        assert not any(running.failure(host) for host in running.hosts)


@pytest.mark.long
def test_a_data_hosts_program_that_is_killed_costs_no_sample_and_its_host_ends_well(
    image: Image, tmp_path: Path
) -> None:
    with held(image, tmp_path) as running:
        running.ask(DATA[1], "pkill", "--signal", "KILL", "--oldest", "--full", "data_hosts.py")
        running.let_go_on(*TRAINING)
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)
        assert "was ended by SIGKILL" in running.log(TRAINING[0])
        assert not any(running.failure(host) for host in running.hosts)


@pytest.mark.long
def test_a_data_host_that_stands_still_for_a_while_costs_no_sample(image: Image, tmp_path: Path) -> None:
    with held(image, tmp_path) as running:
        docker("pause", running.container(DATA[1]))
        running.let_go_on(*TRAINING)
        time.sleep(STILL_SECONDS)  # this is what is tested
        docker("unpause", running.container(DATA[1]))
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)


def test_strangers_at_the_ports_of_a_data_host_cost_no_sample(image: Image, tmp_path: Path) -> None:
    with held(image, tmp_path) as running:
        ports = running.ask(DATA[1], "python", "-c", LISTENING).split()
        assert "7800" in ports
        assert len(ports) >= 3, "the control's and two workers'"
        made = running.ask(TRAINING[1], "python", "-c", STRANGERS, running.address(DATA[1]), *ports)
        assert int(made) >= 3 * 20  # of the launcher's own port the queue may be full: it takes nothing in
        running.let_go_on(*TRAINING)
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)


def test_a_training_host_that_is_killed_ends_the_job_on_every_host(image: Image, tmp_path: Path) -> None:
    with held(image, tmp_path, pods=True) as running:
        running.kill(TRAINING[1])
        running.let_go_on(*TRAINING)
        codes = running.wait()
        assert 0 not in codes.values()
        assert TRAINING[1] in running.failure(TRAINING[0])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("raises", "ValueError: sample 1234 cannot be read"),
        pytest.param("hangs", "HangingUserFunctionError: the user's function on algo-", marks=pytest.mark.long),
        ("dies", "ended several workers that made it"),
        pytest.param("is too large", "BatchTooLargeError: on the data host algo-", marks=pytest.mark.long),
        pytest.param("cannot travel", "UnsupportedBatchError: on the data host algo-", marks=pytest.mark.long),
    ],
)
def test_a_sample_that_cannot_be_had_ends_the_job_and_names_host_and_cause(
    image: Image, tmp_path: Path, fault: str, said: str
) -> None:
    with job(image, tmp_path, fault=fault) as running:
        codes = running.wait()
        assert 0 not in [codes[host] for host in TRAINING]
        failures = running.failure(TRAINING[0]) + running.failure(TRAINING[1])
        assert said in failures
        assert any(host in failures for host in DATA)


@pytest.mark.long
def test_a_data_host_of_another_token_is_left_out_and_named(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, fault="another token") as running:
        assert set(running.wait().values()) == {0}
        assert_each_sample_once(running)
        for host in TRAINING:
            assert "no batch is asked from algo-2:7800: " in running.log(host)


def test_a_data_host_whose_port_is_in_use_ends_the_job_and_says_why(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, fault="port in use") as running:
        assert 0 not in running.wait().values()
        assert "DLC_DATA_PORT" in "".join(map(running.failure, running.hosts))
