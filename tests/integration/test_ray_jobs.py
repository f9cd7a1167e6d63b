"""Jobs below Ray, in the tested image with Ray: work runs on the data hosts, and the job ends on all hosts at once."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.checkout import find_root, read_tree
from dlc.inspection.archive import export_archive
from harness import toy
from harness.engine import HANG_BOUND, RUN_LABEL, connect, docker, run_once
from harness.images import Image, image_of
from harness.job import Job

pytestmark = [
    pytest.mark.integration,
    pytest.mark.when(framework="pytorch", python=">=3.10"),  # Ray has no wheels of this version for Python 3.9
    pytest.mark.timeout(2 * toy.BUILD_SECONDS),  # whichever test is the first makes the image
]

PAGE = Path("docs/heterogeneous.md")
DOCUMENTED = "pytorch-2.13-training-cpu-py311"
RAY = "extras=[ray]"
SCRIPTS = Path(__file__).parent / "scripts"
SQUARES, LASTING = SCRIPTS / "ray_squares.py", SCRIPTS / "ray_work_that_lasts.py"
DATA, HEAD = ("algo-1", "algo-2"), "algo-3"
REFUSED = 78
FRAMEWORK_LAYERS = 2


@pytest.fixture(scope="module")
def ray_image(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The tested image with Ray, by the commands of the page; it stays, so that the next run has it at once."""
    root = tmp_path_factory.mktemp("with-ray") / "checkout"
    toy.copy_sources(root)
    commands = re.findall(r"^dlc (.*)$", (find_root() / PAGE).read_text(), re.MULTILINE)
    commands = [shlex.split(command.replace(DOCUMENTED, image.variant.id)) for command in commands if RAY in command]
    assert [words[0] for words in commands] == ["lock", "build"]
    for words in commands:
        done = toy.dlc(root, *words)
        assert done.returncode == 0, f"dlc {shlex.join(words)}\n{done.stdout}{done.stderr}"
    return image_of(read_tree(root), image.variant.id, RAY)


def job(image: Image, folder: Path, script: Path = SQUARES, **parameters: object) -> Job:
    asked = {"sagemaker_ray_enabled": True, "sagemaker_distribution_instance_groups": ["dnn"], **parameters}
    return Job(image, folder, script, groups={"data": 2, "dnn": 1}, hyperparameters=asked)


def assert_same_framework(*images: Image) -> None:
    """The lowest layers are the same ones, or hold the same files in another order (docs/decisions/0047)."""
    first, second = (each.inspected["RootFS"]["Layers"][:FRAMEWORK_LAYERS] for each in images)
    if first != second:
        plain, added = (export_archive(connect(), each.ref).layers[:FRAMEWORK_LAYERS] for each in images)
        assert [layer.entries for layer in plain] == [layer.entries for layer in added], "the framework was built anew"


def test_rays_libraries_can_be_imported_and_its_packages_fit_together(ray_image: Image) -> None:
    done = run_once(ray_image.ref, "python", "-c", "import ray.data, ray.train.torch, ray.tune; print('fine')")
    assert done.stdout == "fine\n", done.stderr
    assert run_once(ray_image.ref, "python", "-m", "pip", "check").stdout == "No broken requirements found.\n"


def test_the_image_with_ray_differs_from_the_plain_one_by_rays_packages_alone(image: Image, ray_image: Image) -> None:
    plain, added = image.python_packages, ray_image.python_packages
    assert {name: added.get(name) for name in plain} == plain
    assert "ray" in added.keys() - plain.keys()
    assert_same_framework(image, ray_image)


def test_work_runs_on_the_data_hosts_and_all_end_with_the_scripts_exit_code(ray_image: Image, tmp_path: Path) -> None:
    with job(ray_image, tmp_path) as running:
        running.wait_for_line("the script ends", HEAD)
        codes = running.wait()
        assert codes == dict.fromkeys(running.hosts, 3)
        found = json.loads((running.opt_ml(HEAD) / "model/ray.json").read_text())
    assert found["squares"] == [number * number for number in range(20)]
    assert set(found["hosts"]) <= set(DATA)
    assert found["lasting"] in DATA


@pytest.mark.long
def test_ray_train_trains_one_model_on_two_hosts(ray_image: Image, tmp_path: Path) -> None:
    asked = {"sagemaker_ray_enabled": True}
    with Job(ray_image, tmp_path, SCRIPTS / "ray_train.py", hosts=2, hyperparameters=asked) as running:
        codes = running.wait()
        assert codes == dict.fromkeys(running.hosts, 0), running.log()
        found = [json.loads((running.opt_ml(host) / "model/ray.json").read_text()) for host in running.hosts]
    assert found[0] == found[1]
    assert sorted(found[0]) == running.hosts
    first, second = found[0].values()
    assert first == pytest.approx(second)
    # Trained: all weights are 1 in the end.
    assert all(abs(weight - 1) < 0.2 for weight in first)


def test_a_data_host_that_dies_ends_the_job_on_all_hosts_and_is_named(ray_image: Image, tmp_path: Path) -> None:
    with job(ray_image, tmp_path, LASTING) as running:
        running.wait_for_line("work lasts on algo-1 algo-2", HEAD)
        running.kill("algo-1")
        codes = running.wait()
        for host in ("algo-2", HEAD):
            assert codes[host] != 0
            assert "algo-1" in running.failure(host)


def test_a_head_that_dies_ends_the_job_on_all_hosts_and_is_named(ray_image: Image, tmp_path: Path) -> None:
    with job(ray_image, tmp_path, LASTING, lose_the_head=True) as running:
        codes = running.wait()
        assert 0 not in codes.values()
        for host in running.hosts:
            assert HEAD in running.failure(host)
            assert "ray head" in running.failure(host)


def test_an_image_without_ray_is_refused_on_every_host_with_the_remedy(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path) as running:
        assert set(running.wait().values()) == {REFUSED}
        for host in running.hosts:
            assert "requirements.txt" in running.failure(host)


# The service of KubeRay's head, and the parameters that it gives each `ray start`.
SERVICE = "digits-head-svc.ml.svc.cluster.local"
RAY_START = "--block --dashboard-agent-listen-port=52365 --metrics-export-port=8080 --num-cpus=1"
GCS = f"{SERVICE}:6379"
DASHBOARD = f"http://{SERVICE}:8265"
HEALTH = ("http://localhost:52365/api/local_raylet_healthz", "http://localhost:8265/api/gcs_healthz")


@pytest.fixture
def kuberay(ray_image: Image) -> Iterator[str]:
    """A network with the head and the worker of a RayCluster: KubeRay's commands start them, past our entry point."""
    network = f"dlc-test-{time.monotonic_ns():x}"
    docker("network", "create", "--label", RUN_LABEL, network)
    head = f"ulimit -n 65536; ray start --head --dashboard-host=0.0.0.0 {RAY_START}"
    # What KubeRay's init container waits for is here in front of the worker's command.
    node = f"until ray health-check --address {GCS}; do sleep 1; done; "
    node += f"ulimit -n 65536; ray start --address={GCS} {RAY_START}"
    pods = {"head": (head, "127.0.0.1:6379", SERVICE), "worker": (node, GCS, "worker")}
    try:
        for pod, (command, address, alias) in pods.items():
            words = ["run", "--detach", "--name", f"{network}-{pod}", "--label", RUN_LABEL, "--network", network]
            words += ["--hostname", pod, "--network-alias", alias, "--shm-size", "1g"]
            for name, value in {"RAY_ADDRESS": address, "RAY_PORT": "6379", "OMP_NUM_THREADS": "1"}.items():
                words += ["--env", f"{name}={value}"]
            docker(*words, "--entrypoint", "/bin/bash", ray_image.ref, "-c", "--", command)
        yield network
    finally:
        docker("rm", "--force", "--volumes", *(f"{network}-{pod}" for pod in pods), check=False)
        docker("network", "rm", network, check=False)


@pytest.mark.long
def test_kuberay_runs_what_ray_job_submit_sends_on_all_pods(ray_image: Image, kuberay: str) -> None:
    """The submitter of a RayJob, or a user whose machine reaches the dashboard."""
    submit = f"ray job submit --address {DASHBOARD} --working-dir /code --submission-id digits -- python ray_on_pods.py"
    wait = f"until ray health-check --address {GCS} && ray job list --address {DASHBOARD}; do sleep 2; done"
    words = ["run", "--rm", "--label", RUN_LABEL, "--network", kuberay, "--volume", f"{SCRIPTS}:/code:ro"]
    words += ["--entrypoint", "/bin/bash", ray_image.ref, "-ce", "--", f"{wait} >/dev/null 2>&1; {submit}"]
    done = docker(*words, seconds=HANG_BOUND, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "added up on head worker 3.0" in done.stdout, done.stdout
    # KubeRay's probes ask these, by wget or by Python.
    ask = f"import urllib.request as ask; print([ask.urlopen(each).read() for each in {HEALTH}])"
    health = docker("exec", f"{kuberay}-head", "python", "-c", ask).stdout
    assert health.count("success") == len(HEALTH), health
