"""SageMaker's SDK 3.x starts images with its own shell script and drivers: what those need is in the images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlc.core.checkout import find_root
from harness import sdk3
from harness.images import Image
from harness.job import Job

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `train` module of the SDK."""
    return sdk3.unpack_package(FOLDER / "sdk3-drivers.txt", tmp_path_factory.mktemp("sdk3"))


def sdk3_job(image: Image, folder: Path, script: Path, **options: Any) -> Job:
    """A job whose hosts are started as SDK 3.x does."""
    start: dict[str, Any] = {"entrypoint": sdk3.ENTRYPOINT, "command": sdk3.COMMAND, "environment": sdk3.ENVIRONMENT}
    return Job(image, folder, script, **start, **options)


@pytest.mark.when(python=">=3.10")  # the examples are for frameworks of today
def test_its_basic_driver_trains_the_example(image: Image, package: Path, tmp_path: Path) -> None:
    job = sdk3_job(image, tmp_path, find_root() / "examples" / image.framework / "train.py")
    sdk3.prepare(job, package, "train.py", {"epochs": "3"})
    with job:
        assert job.wait() == {"algo-1": 0}
        assert len(list((job.opt_ml() / "model").iterdir())) == 1


def test_its_basic_driver_keeps_the_exit_code(image: Image, package: Path, tmp_path: Path) -> None:
    job = sdk3_job(image, tmp_path, FOLDER / "scripts" / "exit_three.py")
    sdk3.prepare(job, package, "exit_three.py", {})
    with job:
        assert job.wait() == {"algo-1": 3}
        assert job.failure()


@pytest.mark.when(framework="pytorch")
def test_its_torchrun_driver_trains_on_two_hosts(image: Image, package: Path, tmp_path: Path) -> None:
    job = sdk3_job(image, tmp_path, find_root() / "examples/pytorch/train.py", hosts=2)
    sdk3.prepare(job, package, "train.py", {"epochs": "3"}, sdk3.TORCHRUN)
    with job:
        assert job.wait() == {"algo-1": 0, "algo-2": 0}
        first, second = job.metrics()
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)
