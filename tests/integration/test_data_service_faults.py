"""Faults of data hosts, training ranks and the user's function, and what is promised of each: no sample is lost."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from harness.engine import HANG_BOUND, docker
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPTS = Path(__file__).parent / "scripts"
DATA, TRAINING = ("algo-1", "algo-2"), ("algo-3", "algo-4")
SAMPLES, BATCH = 4000, 32
TORCHRUN = {"sagemaker_torch_distributed_enabled": True}
# A rank that gets no processor for `lost_after` seconds counts as lost.
FIRST_COME = {"order": "first_come", "when_lost": "give_back", "lost_after": 60.0, "prefetch": 4}
SERVES = "7800, 2 workers"  # a data program says it when it listens
MIB = 1 << 20
# Kills the process that listens at the control's port, once there is one.
KILL_CONTROL = """
import os, signal, time

def listening():
    rows = [line.split() for family in ("tcp", "tcp6") for line in open(f"/proc/net/{family}")]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and row[1].endswith(":%04X" % 7800)}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        except OSError:
            continue
        if files & sockets:
            yield int(pid)

pids = set()
while not pids:  # killed between listening and saying so, it would be one that never came up
    before = {*listening()}
    time.sleep(0.5)
    pids = before & {*listening()}
for pid in pids:
    os.kill(pid, signal.SIGKILL)
"""
# The most memory that each process of the data program had, in bytes, the program's own first.
PEAKS = """
import os
for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc")))):
    try:
        words = open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        continue
    if b"data_hosts.py\\0" in words:
        line = next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM"))
        print(int(line.split()[1]) * 1024)
"""


def job(
    image: Image,
    folder: Path,
    loader: dict[str, Any] | None = None,
    strategy: dict[str, Any] | None = None,
    programs: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    **arguments: object,
) -> Job:
    """Two data hosts and two training hosts; `loader` are arguments of RemoteLoader, the others of the script.

    Programs are scripts of groups that do not run data_hosts.py itself.
    """
    parameters = {
        "sagemaker_distribution_instance_groups": ["dnn"], **(TORCHRUN if strategy is None else strategy),
        "loader": json.dumps(loader or {}), **arguments,
    }  # fmt: skip
    settings = {"DLC_HEARTBEAT_TIMEOUT": "60", "DLC_STOP_GRACE": "5", "SERVED": "data_hosts.py"}
    return Job(
        image, folder, SCRIPTS / "data_hosts.py", groups={"data": 2, "dnn": 2}, hyperparameters=parameters,
        programs={group: SCRIPTS / name for group, name in (programs or {}).items()},
        environment={**settings, **(environment or {})}, pods=True,
    )  # fmt: skip


def assert_each_sample_once(running: Job) -> None:
    ranks = running.metrics()
    assert [rank["rank"] for rank in ranks] == [0, 1]
    for epoch in range(2):
        assert sorted(number for rank in ranks for number in rank["epochs"][epoch]) == list(range(SAMPLES))


def assert_ended_well(running: Job) -> None:
    assert set(running.wait().values()) == {0}
    assert not any(running.failure(host) for host in running.hosts)
    assert_each_sample_once(running)


def programs_of(running: Job, host: str) -> set[str]:
    """The data programs of this host whose batches came, as `host:what it chose`."""
    return {name for rank in running.metrics() for name in rank["programs"] if name.startswith(f"{host}:")}


def kill_script(running: Job, host: str) -> None:
    """The process that runs the script, which is older than what it started; not torchrun, nor a shell around it."""
    running.ask(host, "pkill", "--signal", "KILL", "--oldest", "--full", r"^[^ ]*python[^ ]* (-u )?[^ ]*data_hosts\.py")


def go_on_when_it_serves_again(running: Job, host: str) -> None:
    """Let the ranks of a held job go on when the host's program serves for the second time."""
    deadline = time.monotonic() + HANG_BOUND
    while running.log(host).count(SERVES) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    running.let_go_on(*TRAINING)


def test_a_data_program_that_is_killed_and_started_again_makes_batches_again(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, programs={"data": "serve_again.sh"}, pause=0.007, hold=1) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        kill_script(running, DATA[1])
        running.wait_for_line("the data program was killed and starts again", DATA[1])
        go_on_when_it_serves_again(running, DATA[1])
        assert_ended_well(running)
        assert len(programs_of(running, DATA[1])) == 2
        assert "the job goes on without" not in running.log(TRAINING[0])


@pytest.mark.long
def test_a_data_hosts_container_that_is_started_again_makes_batches_again(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, pause=0.01, hold=1) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        running.kill(DATA[1])
        running.wait_for_line(f"the job goes on without {DATA[1]}", TRAINING[0])
        docker("start", running.container(DATA[1]))
        running.wait_for_line(f"{DATA[1]}, a data host, has come back", TRAINING[0])
        go_on_when_it_serves_again(running, DATA[1])
        assert_ended_well(running)
        assert len(programs_of(running, DATA[1])) == 2


@pytest.mark.long
def test_the_control_processes_of_all_data_hosts_may_be_killed(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, pause=0.02) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        for _ in range(2):
            for host in DATA:
                running.ask(host, "python", "-c", KILL_CONTROL)
        for host in DATA:
            running.wait_for_line("the control process ended with -9; a new one starts", host)
        assert_ended_well(running)


@pytest.mark.long
def test_ranks_that_are_slower_than_the_data_hosts_grow_no_side_beyond_its_bounds(image: Image, tmp_path: Path) -> None:
    """Two gigabytes pass, of which a side that nothing bounds would hold half of one at a time."""
    batch, prefetch = BATCH * 128 * 1024 * 2, 4 * BATCH * 128 * 1024 * 2
    loader = {"prefetch_bytes": prefetch}
    with job(image, tmp_path, loader, pause=0.0001, take=0.08, numbers=128 * 1024) as running:
        running.wait_for_line("ten batches are here again", TRAINING[0])
        for host in DATA:
            program, *others = map(int, running.ask(host, "python", "-c", PEAKS).split())
            assert len(others) == 3, "the control and two workers"
            # In a worker: the samples, the batch of them, and one that waits for each rank.
            assert max(others) < program + 4 * batch + 64 * MIB
        assert_ended_well(running)
        # Batches that came or are awaited, as much memory that is kept for the next ones, and what the loop holds.
        assert all(rank["grew"] < 2 * prefetch + 2 * batch + 64 * MIB for rank in running.metrics())


def test_a_rank_that_is_killed_gives_back_what_it_had_not_taken(image: Image, tmp_path: Path) -> None:
    with job(
        image,
        tmp_path,
        {**FIRST_COME, "lost_after": 15.0},  # the other rank waits for it
        strategy={},
        programs={"dnn": "rank_may_be_killed.sh"},
        pause=0.006,
        take=0.01,
        stop=1,
        hold=1,
    ) as running:
        running.wait_for_line("ten batches are here", TRAINING[1])
        kill_script(running, TRAINING[1])
        running.let_go_on(TRAINING[0])
        assert set(running.wait().values()) == {0}
        assert "the rank was killed" in running.log(TRAINING[1])
        files = [running.opt_ml(host) / f"output/data/taken-rank{rank}.txt" for rank, host in enumerate(TRAINING)]
        taken = [list(map(int, line.split())) for file in files for line in file.read_text().splitlines()]
        first, second = ([id_ for epoch, *ids in taken if epoch == number for id_ in ids] for number in range(2))
        assert len(first) == len(set(first)), "a sample came twice"
        assert SAMPLES - len(first) in (0, BATCH), "more than the batch in the hands of the killed rank is missing"
        assert sorted(second) == list(range(SAMPLES))


def test_without_rank_zero_which_keeps_the_leases_the_others_end_and_name_it(image: Image, tmp_path: Path) -> None:
    with job(
        image, tmp_path, FIRST_COME, strategy={}, programs={"dnn": "rank_may_be_killed.sh"}, pause=0.01, stop=1, hold=1
    ) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        kill_script(running, TRAINING[0])
        running.let_go_on(TRAINING[1])
        codes = running.wait()
        assert codes[TRAINING[1]] == 1
        assert "ConsumerLostError: training rank 0, which keeps the leases at algo-3:7801" in running.failure(
            TRAINING[1]
        )


def test_a_rank_that_torchrun_watches_ends_the_job_on_every_host_when_it_is_killed(
    image: Image, tmp_path: Path
) -> None:
    with job(image, tmp_path, FIRST_COME, pause=0.01, hold=1) as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        kill_script(running, TRAINING[0])
        running.let_go_on(TRAINING[1])
        assert 0 not in running.wait().values()
        assert TRAINING[0] in running.failure(TRAINING[0])


@pytest.mark.long
def test_a_function_that_leaks_until_the_kernel_kills_its_worker_costs_no_sample(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, fault="leaks") as running:
        for host in DATA:
            docker("update", "--memory", "900m", "--memory-swap", "900m", running.container(host))
        assert_ended_well(running)
        for host in DATA:
            assert re.search(r"worker \d ended with -9; a new one starts", running.log(host))
        assert "lost a worker of algo-" in running.log(TRAINING[0]) + running.log(TRAINING[1])


@pytest.mark.long
def test_of_a_batch_that_is_made_twice_and_not_the_same_one_comes_and_it_is_whole(image: Image, tmp_path: Path) -> None:
    loader = {"elsewhere_after": 0.5}
    with job(image, tmp_path, loader, pause=0.003, fault="is not deterministic") as running:
        running.wait_for_line("ten batches are here", TRAINING[0])
        docker("pause", running.container(DATA[1]))
        time.sleep(3.0)  # what it owes is made by the other one meanwhile, and by itself afterwards
        docker("unpause", running.container(DATA[1]))
        assert_ended_well(running)
        assert programs_of(running, DATA[0])
        assert programs_of(running, DATA[1])


@pytest.mark.long
def test_hosts_whose_clocks_differ_by_days_serve_each_other_with_tls_too(image: Image, tmp_path: Path) -> None:
    programs = {"data": "serve_by_another_clock.sh"}
    with job(image, tmp_path, programs=programs, environment={"DLC_DATA_TLS": "1"}) as running:
        assert_ended_well(running)
        now = time.time()
        for host, days in zip(DATA, (1, -400), strict=True):
            said = re.search(r"the clock says (\d+)", running.log(host))
            assert said
            assert abs(int(said[1]) - now - days * 86400) < 3600
            assert programs_of(running, host)


@pytest.mark.parametrize(
    ("parameters", "environment", "loader", "code", "said"),
    [
        ({"sagemaker_distribution_instance_groups": ["nobody"]}, {}, {}, 78, "'nobody'"),
        ({}, {"DLC_GROUP_PROGRAMS": '{"nobody": "data_hosts.py"}'}, {}, 78, "no such group"),
        ({}, {}, {"group": "nobody"}, 1, "the job has no instance group 'nobody'; expected one of 'data', 'dnn'"),
    ],
    ids=["that trains", "with a program", "that serves"],
)
def test_a_group_without_hosts_is_one_error_that_names_it(
    image: Image,
    tmp_path: Path,
    parameters: dict[str, Any],
    environment: dict[str, str],
    loader: dict[str, Any],
    code: int,
    said: str,
) -> None:
    with job(image, tmp_path, loader, {**TORCHRUN, **parameters}, environment=environment) as running:
        codes = running.wait()
        assert code in codes.values()
        assert 0 not in [codes[host] for host in TRAINING]
        assert said in "".join(map(running.failure, running.hosts))
