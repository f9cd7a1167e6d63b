"""A strategy and a framework are a file each: two that lie in added/, outside of src, run a job of two hosts."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launchers import Hosts

from harness.ports import free_port

ADDED = Path(__file__).parent / "added"
# Runs the launcher whose command follows, with the folders below the first argument as more of its tables.
WITH_ROWS = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[-2]))
from launch import signals
signals.arm()
from launch.plan import frameworks, strategies
strategies.__path__.append(sys.argv[1] + "/strategies")
frameworks.__path__.append(sys.argv[1] + "/frameworks")
sys.argv[:] = sys.argv[-2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TOY: dict[str, Any] = {"sagemaker_toy_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 2}
PRINTS = """
import os
print(*(os.environ.get(name, "unset") for name in (
    "RANK", "WORLD_SIZE", "TOYFLOW_DEVICES", "ACCELERATE_USE_CPU", "TF_CPP_MIN_LOG_LEVEL")))
"""
FAILS = """
import os, sys, time
if os.environ["RANK"] == "3":
    class ToyError(Exception): pass
    raise ToyError("the spring is slack")
time.sleep(60)
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts in an image that holds toyflow, whose launchers know what lies in added/."""
    hosts = Hosts(tmp_path, 2)
    (tmp_path / "venv/lib/python3/site-packages/toyflow").mkdir(parents=True)
    hosts.below = (sys.executable, "-I", "-S", "-c", WITH_ROWS, str(ADDED))
    for job in hosts.jobs:
        job.env(DLC_MASTER_PORT=str(free_port()), DLC_RUN_DIR=str(job.base / "run"))
    yield hosts
    for process in hosts.processes:
        process.kill()
        process.wait()


def test_an_added_strategy_and_an_added_framework_run_a_job_of_two_hosts(two: Hosts) -> None:
    two.configure(PRINTS, **TOY)
    two.start()
    ends = two.ends()
    assert [(code, failure) for code, _, failure in ends] == [(0, ""), (0, "")]
    own = [[f"[{name}:{rank}] {rank} 4 1 unset unset" for rank in ranks] for name, ranks in
           zip(two.names, ((0, 1), (2, 3)), strict=True)]  # fmt: skip
    assert [sorted(out.splitlines()) for _, out, _ in ends] == own
    assert all(
        "strategy toy (sagemaker_toy_enabled)" in said and "a toy (to show a row)" in said for said in two.stderr
    )


def test_the_rank_below_an_added_starter_is_named_with_what_its_framework_advises(two: Hosts) -> None:
    two.configure(FAILS, **TOY)
    two.start()
    (first_code, _, first), (second_code, _, second) = two.ends()
    assert (first_code, second_code) == (1, 1)
    assert second.startswith("worker rank 3 on 127.0.0.2 exited with code 1: wind it up first\n")
    assert "ToyError: the spring is slack" in second
    assert first.startswith("the job failed on 127.0.0.2: worker rank 3 on 127.0.0.2 exited with code 1")


def test_the_port_at_which_an_added_strategy_meets_is_looked_at_first(two: Hosts) -> None:
    two.configure(PRINTS, **TOY)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        two.jobs[0].env(DLC_MASTER_PORT=str(taken.getsockname()[1]))
        two.start()
        (_, _, failure), _ = two.ends()
    assert "the ranks of toy" in failure


def test_a_compiler_of_another_framework_is_refused_for_an_added_one(two: Hosts) -> None:
    two.configure(PRINTS, **TOY)
    for job in two.jobs:
        job.env(DLC_COMPILER="inductor")
    two.start()
    failures = [failure for _, _, failure in two.ends()]
    assert all("inductor compiles PyTorch; expected an image with PyTorch; found Toyflow" in said for said in failures)
