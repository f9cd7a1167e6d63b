"""Ray clusters for real: launchers on loopback addresses, each with Ray's processes, and a script that drives them."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launchers import Hosts

PYTHON = os.environ.get("DLC_TEST_RAY_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="DLC_TEST_RAY_PYTHON names no Python with Ray")
BOUND = 300  # seconds; only a hang takes that long
RAY = {"sagemaker_ray_enabled": True}
DNN_GROUP = {"sagemaker_distribution_instance_groups": ["dnn"]}
GROUPS = {"data": [1], "dnn": [0]}

SQUARES = """
import os, sys, ray
ray.init()
@ray.remote(num_cpus=1, resources={"data": 1})
def square(number):
    return os.environ["SM_CURRENT_HOST"], number * number
print(sorted(ray.get([square.remote(number) for number in range(4)])), flush=True)
print(sorted(node["Resources"].get("data", 0) for node in ray.nodes()), flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Hosts]]:
    """Starts a job; Ray's folders have short names, because it makes sockets in them."""
    with tempfile.TemporaryDirectory(prefix="dlc-", dir="/tmp") as folder:
        jobs: list[Hosts] = []

        def started(count: int, script: str, groups: dict[str, list[int]] | None = None, **environ: str) -> Hosts:
            hosts = Hosts(tmp_path, count)
            jobs.append(hosts)
            hosts.configure(script, groups, **RAY, **(DNN_GROUP if groups else {}))
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = str(server.getsockname()[1])
            for number, job in enumerate(hosts.jobs):
                own = f"{folder}/{number}"
                venv = str(Path(PYTHON).parent.parent)
                job.env(DLC_VENV=venv, DLC_RUN_DIR=own, DLC_RAY_PORT=port, DLC_NUM_CPUS="2", **environ)
                job.env(DLC_HEARTBEAT_TIMEOUT="60", HOME=folder)
            hosts.start()
            return hosts

        yield started
        for hosts in jobs:
            for process in hosts.processes:
                process.kill()
                process.communicate()
        assert _below(folder) == []


def _below(folder: str) -> list[str]:
    """Processes whose command line names the folder: Ray's daemons."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in listed if f"{folder}/" in line]


def ends(hosts: Hosts) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of every host."""
    found = []
    for process in hosts.processes:
        out, err = process.communicate(timeout=BOUND)
        found.append((process.returncode, out, err))
    return found


def test_work_runs_in_the_group_that_it_asks_for_and_all_hosts_end_with_the_script(start: Callable[..., Hosts]) -> None:
    (code, out, err), (other, _, other_err) = ends(start(2, SQUARES, GROUPS))
    assert (code, other) == (0, 0), err + other_err
    assert "[('127.0.0.2', 0), ('127.0.0.2', 1), ('127.0.0.2', 4), ('127.0.0.2', 9)]" in out
    assert "[0, 2.0]" in out


def test_the_exit_code_of_the_script_is_the_jobs_and_nothing_of_ray_is_left(start: Callable[..., Hosts]) -> None:
    ((code, out, err),) = ends(start(1, "import ray; ray.init(); print('joined', flush=True); raise SystemExit(3)"))
    assert (code, "joined" in out) == (3, True), err


def test_a_lost_node_ends_the_job_and_is_named(start: Callable[..., Hosts]) -> None:
    lost = """
import os, ray, signal, time
ray.init()
@ray.remote(resources={"data": 1}, max_retries=0)
def end_the_node():
    os.kill(os.getppid(), signal.SIGKILL)
end_the_node.remote()
time.sleep(600)
"""
    (code, _, _), (other, _, err) = ends(start(2, lost, GROUPS))
    assert (code, other) == (1, 1), err
    assert "ray node rank 1 on 127.0.0.2 exited with code 1" in err, err
