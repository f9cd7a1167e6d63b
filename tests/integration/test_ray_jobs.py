"""Jobs below Ray, in the tested image with Ray: work runs on the data hosts, and the job ends on all hosts at once."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from dlc.core.checkout import find_root, read_tree
from harness import toy
from harness.engine import run_once
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


def test_rays_libraries_can_be_imported_and_its_packages_fit_together(ray_image: Image) -> None:
    done = run_once(ray_image.ref, "python", "-c", "import ray.data, ray.train.torch, ray.tune; print('fine')")
    assert done.stdout == "fine\n", done.stderr
    assert run_once(ray_image.ref, "python", "-m", "pip", "check").stdout == "No broken requirements found.\n"


def test_the_image_with_ray_differs_from_the_plain_one_by_rays_packages_alone(image: Image, ray_image: Image) -> None:
    plain, added = image.python_packages, ray_image.python_packages
    assert {name: added.get(name) for name in plain} == plain
    assert "ray" in added.keys() - plain.keys()
    layers = [each.inspected["RootFS"]["Layers"] for each in (image, ray_image)]
    assert layers[0][:FRAMEWORK_LAYERS] == layers[1][:FRAMEWORK_LAYERS], "the framework was built anew"


def test_work_runs_on_the_data_hosts_and_all_end_with_the_scripts_exit_code(ray_image: Image, tmp_path: Path) -> None:
    with job(ray_image, tmp_path) as running:
        running.wait_for_line("the script ends", HEAD)
        codes = running.wait()
        assert codes == dict.fromkeys(running.hosts, 3)
        found = json.loads((running.opt_ml(HEAD) / "model/ray.json").read_text())
    assert found["squares"] == [number * number for number in range(20)]
    assert set(found["hosts"]) <= set(DATA)
    assert found["lasting"] in DATA


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
