"""Kubeflow's own SDK with a runtime of ours, and with our image in a runtime of the cluster's.

The SDK is the real one. In place of an API server there is a stand-in, which keeps what the SDK sends. Pods are
containers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.client_packages import install_client, run_client
from harness.cluster_rules import check_shape, find_mistakes
from harness.engine import HANG_BOUND, RUN_LABEL, docker
from harness.images import Image
from harness.kubernetes_api import Api, serving_api
from harness.pods import COMPLETED, Cluster, Object, render_objects

pytestmark = [pytest.mark.integration, pytest.mark.long]
in_pytorch = pytest.mark.when(framework="pytorch", version=">=2.0")

CLIENT = Path(__file__).parent / "clients" / "kubeflow_client.py"
IMAGE = "registry.example/dlc/pytorch:2.13-training-cpu-py311"
JOB = "script: train.py\nhosts: 2\ndistributed: torchrun\n"
# As Kubeflow Trainer's own `torch-distributed`, of a namespace.
TORCH: Object = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {
                                "template": {"spec": {"containers": [{"name": "node", "image": "pytorch/pytorch:2"}]}}
                            },
                        },
                    }
                ]
            }
        },
    },
}


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the SDK."""
    return install_client("kubeflow", tmp_path_factory.mktemp("kubeflow"))


def render_train_job(folder: Path, image: str, *words: str) -> list[Object]:
    """The objects of a job of two hosts; the last one is the TrainJob."""
    (folder / "train.py").write_text((Path(__file__).parent / "scripts/all_reduce.py").read_text())
    (folder / "job.yml").write_text(f"image: {image}\n{JOB}")
    return render_objects(folder / "job.yml", "kind=trainjob", *words)


def check_shapes(objects: Sequence[Object]) -> list[str]:
    """Say what models have against objects. How pods end well with our launcher is no matter of other runtimes."""
    return [text for each in objects for text in check_shape(each)]


def ask(sdk: Path, api: Api, *words: str) -> dict[str, Any]:
    """What the client has told."""
    done = run_client(sdk, CLIENT, *words, env={"KUBECONFIG": str(api.config)}, seconds=HANG_BOUND)
    assert done.returncode == 0, done.stderr + "\n".join(api.refused)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_the_job_that_it_sends_with_our_runtime_is_the_one_that_dlc_submits(sdk: Path, tmp_path: Path) -> None:
    objects = render_train_job(tmp_path, IMAGE)
    *before, ours = objects
    with serving_api(before, tmp_path, find_mistakes) as api:
        told = ask(sdk, api, "again", "dlc-digits", "dlc-digits")
        sent = api.find("TrainJob", "dlc-digits")
    # The number of nodes, which ours repeats, is the runtime's.
    assert ours["spec"].pop("trainer") == {"numNodes": 2}
    assert sent == ours
    assert told == {
        "framework": "dlc", "image": IMAGE, "before": [], "during": ["dlc-digits"], "nodes": 2, "status": "Created",
        "lines": [],
    }  # fmt: skip


def test_it_lists_our_jobs_among_others(sdk: Path, tmp_path: Path) -> None:
    with serving_api(render_train_job(tmp_path, IMAGE), tmp_path, find_mistakes) as api:
        told = ask(sdk, api, "again", "dlc-digits", "again")
    assert told["before"] == ["dlc-digits"]
    assert told["during"] == ["again", "dlc-digits"]


@in_pytorch
def test_pods_of_a_job_that_it_sends_under_another_name_train_as_one(sdk: Path, image: Image, tmp_path: Path) -> None:
    *before, _ = render_train_job(tmp_path, image.ref)
    with serving_api(before, tmp_path, find_mistakes) as api:
        ask(sdk, api, "again", "dlc-digits", "again")
        sent = api.find("TrainJob", "again")
    with Cluster([*before, sent], tmp_path, secrets={"DLC_JOB_TOKEN": "of this test"}) as cluster:
        ended = cluster.run()
    assert (ended.state, ended.codes) == (COMPLETED, [{"again-node-0-0": 0, "again-node-0-1": 0}]), ended.log
    assert all(f"rank {rank} of 2: 2" in ended.log for rank in range(2)), ended.log


@in_pytorch
def test_a_function_that_it_sends_runs_below_torchrun_in_our_image(sdk: Path, image: Image, tmp_path: Path) -> None:
    """Its command takes the place of the image's entry point; Trainer's torch plugin sets PET_*."""
    with serving_api([TORCH], tmp_path, check_shapes) as api:
        name = ask(sdk, api, "function", "torch-distributed", image.ref)["name"]
        trainer = api.find("TrainJob", name)["spec"]["trainer"]
    assert (trainer["image"], trainer["numNodes"]) == (image.ref, 2)
    network = f"dlc-test-{time.monotonic_ns():x}"
    pods = [f"{network}-{rank}" for rank in range(2)]
    variables = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_PORT": "29400", "PET_MASTER_ADDR": pods[0]}
    command, *arguments = trainer["command"]
    docker("network", "create", "--label", RUN_LABEL, network)
    try:
        for rank, pod in enumerate(pods):
            words = ["run", "--detach", "--name", pod, "--hostname", pod, "--label", RUN_LABEL, "--network", network]
            for key, value in {**variables, "PET_NODE_RANK": str(rank), "OMP_NUM_THREADS": "1"}.items():
                words += ["--env", f"{key}={value}"]
            docker(*words, "--entrypoint", command, image.ref, *arguments)
        codes = docker("wait", *pods, seconds=HANG_BOUND).stdout.split()
        said = [docker("logs", pod) for pod in pods]
        log = "".join(each.stdout + each.stderr for each in said)
        assert codes == ["0", "0"], log
        assert all(f"sum of rank {rank} of 2: 2" in log for rank in range(2)), log
    finally:
        docker("rm", "--force", "--volumes", *pods, check=False)
        docker("network", "rm", network, check=False)
