"""Pods as Kubeflow's operators start them: the variables, names and files that they set, no other word."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.engine import HANG_BOUND, RUN_LABEL, docker
from harness.images import Image

pytestmark = pytest.mark.integration
in_pytorch = pytest.mark.when(framework="pytorch", version=">=2.0")

SCRIPTS = Path(__file__).parent / "scripts"
TRAINER = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_PORT": "29400"}
PYTORCH_JOB = {"WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}


@pytest.fixture
def network(engine: None) -> Iterator[str]:
    name = f"dlc-test-{time.monotonic_ns():x}"
    docker("network", "create", "--label", RUN_LABEL, name)
    yield name
    deadline = time.monotonic() + HANG_BOUND
    while (gone := docker("network", "rm", name, check=False)).returncode:  # while a container leaves it
        assert time.monotonic() < deadline, gone.stderr
        time.sleep(1)


class Pods:
    """Containers that are called as pods are, each with its variables; gone after the `with`."""

    def __init__(
        self, image: Image, network: str, script: str, pods: Mapping[str, Mapping[str, str]], shared: Path | None = None
    ) -> None:
        """`shared` is a folder of this machine that all pods find at /shared."""
        self._image, self._network, self._pods, self._shared = image, network, pods, shared
        self._environment = {"SAGEMAKER_PROGRAM": script, "OMP_NUM_THREADS": "1", "DLC_JOB_TOKEN": "of this test"}

    def __enter__(self) -> Pods:
        for pod, own in self._pods.items():
            words = ["run", "--detach", "--name", self._name(pod), "--label", RUN_LABEL, "--network", self._network]
            words += ["--hostname", pod.partition(".")[0], "--network-alias", pod, "--shm-size", "1g"]
            words += ["--volume", f"{SCRIPTS}:/opt/ml/code:ro"]
            words += ["--volume", f"{self._shared}:/shared"] if self._shared else []
            for name, value in {**self._environment, **own}.items():
                words += ["--env", f"{name}={value}"]
            docker(*words, self._image.ref, "train")
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self._pods:
            docker("rm", "--force", "--volumes", self._name(pod), check=False)

    def wait(self) -> tuple[list[int], str]:
        """(each pod's exit code, what they printed) once all have ended."""
        names = [self._name(pod) for pod in self._pods]
        ended = docker("wait", *names).stdout.split()
        logs = [docker("logs", name) for name in names]
        return [int(code) for code in ended], "".join(log.stdout + log.stderr for log in logs)

    def _name(self, pod: str) -> str:
        return f"{self._network}-{pod.partition('.')[0]}"


@in_pytorch
def test_a_train_job_of_trainer_v2_is_one_job_below_torchrun(image: Image, network: str) -> None:
    own = {**TRAINER, "PET_MASTER_ADDR": "job-node-0-0.job"}
    pods = {
        f"job-node-0-{rank}.job": {**own, "PET_NODE_RANK": str(rank), "JOB_COMPLETION_INDEX": str(rank)}
        for rank in range(2)
    }
    with Pods(image, network, "all_reduce.py", pods) as job:
        codes, log = job.wait()
    assert codes == [0, 0], log
    assert all(f"rank {rank} of 4: 4" in log for rank in range(4)), log


@in_pytorch
def test_a_pytorch_job_of_a_master_and_a_worker_is_one_job(image: Image, network: str) -> None:
    pods = {"job-master-0": {**PYTORCH_JOB, "RANK": "0"}, "job-worker-0": {**PYTORCH_JOB, "RANK": "1"}}
    with Pods(image, network, "all_reduce.py", pods) as job:
        codes, log = job.wait()
    assert codes == [0, 0], log
    assert "rank 0 of 2: 2" in log
    assert "rank 1 of 2: 2" in log


@in_pytorch
def test_the_launcher_pod_of_an_mpi_job_starts_ranks_by_the_operators_host_file(
    image: Image, network: str, tmp_path: Path
) -> None:
    (tmp_path / "hostfile").write_text("localhost slots=2\n")
    (tmp_path / "mpi_variables.py").write_text((SCRIPTS / "mpi_variables.py").read_text())
    own = {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_default_hostfile": "/opt/ml/code/hostfile"}
    words = ["run", "--rm", "--label", RUN_LABEL, "--network", network, "--volume", f"{tmp_path}:/opt/ml/code:ro"]
    for name, value in {**own, "SAGEMAKER_PROGRAM": "mpi_variables.py"}.items():
        words += ["--env", f"{name}={value}"]
    done = docker(*words, image.ref, "train", check=False)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank} 2 /opt/ml/model localhost" in done.stdout


@in_pytorch
def test_a_pod_of_an_indexed_job_that_nobody_wired_trains_nothing(image: Image, network: str) -> None:
    pods = {"train-1": {"JOB_COMPLETION_INDEX": "1"}}
    with Pods(image, network, "all_reduce.py", pods) as job:
        codes, log = job.wait()
    assert codes == [78], log
    assert "DLC_NUM_HOSTS" in log


@pytest.mark.when(framework="tensorflow", version=">=2.12")
def test_the_evaluator_of_a_tf_job_works_beside_the_cluster_that_it_is_no_part_of(
    image: Image, network: str, tmp_path: Path
) -> None:
    cluster = {"worker": [f"job-worker-{index}:2222" for index in range(2)]}
    tasks = [("worker", 0), ("worker", 1), ("evaluator", 0)]
    pods = {
        f"job-{kind}-{index}": {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}),
            "CHECKPOINTS": "/shared",
        }
        for kind, index in tasks
    }
    with Pods(image, network, "evaluator.py", pods, shared=tmp_path) as job:
        codes, log = job.wait()
    assert codes == [0, 0, 0], log
    assert "evaluated 6.0" in log
