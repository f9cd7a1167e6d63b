"""Jobs whose data hosts run tf.data.service: every element arrives, and the data hosts end with the training."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engine import docker
from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="tensorflow")]

SCRIPT = Path(__file__).parent / "scripts" / "tf_data_training.py"
DATA, TRAINING = "algo-1", "algo-2"
SAMPLES = 2000
SILENT_SECONDS = {"stands still": 30.0, "is cut off": 15.0}
KILL = """
import contextlib, os, pathlib, signal
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    words = []
    with contextlib.suppress(OSError):  # it may have ended since
        words = (folder / "cmdline").read_bytes().split(b"\\0")
    if words[2:3] == [b"dlc_runtime.dataservice.tensorflow.server"] and b'"kind": "KIND"' in words[3]:
        os.kill(int(folder.name), signal.SIGKILL)
        print("killed", folder.name)
"""


def job(image: Image, folder: Path, wait: int = 0, **environment: str) -> Job:
    """A data host, which runs no script unless its group has no program, and a training host; without a strategy."""
    programs = {"DLC_GROUP_PROGRAMS": json.dumps({"data": "tf.data"})}
    return Job(
        image, folder, SCRIPT, groups={"data": 1, "dnn": 1},
        hyperparameters={"wait": wait, "sagemaker_distribution_instance_groups": ["dnn"]},
        environment={**programs, **environment},
    )  # fmt: skip


def assert_each_sample_once(running: Job) -> None:
    (rank,) = running.metrics()
    assert [sorted(epoch) for epoch in rank["epochs"]] == [list(range(SAMPLES))] * 2


def assert_nothing_came_twice(running: Job) -> None:
    """In the epoch that was disturbed, which went on; the next one is whole."""
    (rank,) = running.metrics()
    broken, whole = rank["epochs"]
    assert len(broken) == len(set(broken))
    assert len(broken) > SAMPLES // 2, "the epoch did not go on"
    assert sorted(whole) == list(range(SAMPLES))


@pytest.mark.parametrize("server", ["the group's program", "the script"])
def test_every_element_of_an_epoch_arrives_and_the_data_host_ends_with_the_training(
    image: Image, tmp_path: Path, server: str
) -> None:
    own = {"DLC_GROUP_PROGRAMS": ""} if server == "the script" else {}
    with job(image, tmp_path, **own) as running:
        assert running.wait() == {DATA: 0, TRAINING: 0}
        assert_each_sample_once(running)
        assert f"the dispatcher on {DATA} listens at" in running.log(DATA)
        assert not running.failure(DATA)


@pytest.mark.long
def test_the_training_host_makes_elements_too_where_the_switch_says_so(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, DLC_TF_DATA_WORKERS="all") as running:
        assert running.wait() == {DATA: 0, TRAINING: 0}
        assert_each_sample_once(running)


@pytest.mark.parametrize("kind", ["dispatcher", "worker"])
def test_a_server_that_is_killed_is_started_again_and_nothing_comes_twice(
    image: Image, tmp_path: Path, kind: str
) -> None:
    with job(image, tmp_path, wait=1) as running:
        running.wait_for_line("ten batches are here", TRAINING)
        assert "killed" in running.ask(DATA, "/opt/venv/bin/python", "-c", KILL.replace("KIND", kind))
        running.wait_for_line(f"the {kind} on {DATA} ended with -9; a new one starts", DATA)
        (running.opt_ml(TRAINING) / "output/data/go").touch()
        assert running.wait() == {DATA: 0, TRAINING: 0}
        assert_nothing_came_twice(running)


@pytest.mark.when(version=">=2.16")
@pytest.mark.parametrize("fault", ["stands still", pytest.param("is cut off", marks=pytest.mark.long)])
def test_a_data_host_that_is_silent_for_a_while_goes_on_and_nothing_comes_twice(
    image: Image, tmp_path: Path, fault: str
) -> None:
    with job(image, tmp_path, wait=1, DLC_HEARTBEAT_TIMEOUT="300") as running:
        running.wait_for_line("ten batches are here", TRAINING)
        with silent(running, fault):
            (running.opt_ml(TRAINING) / "output/data/go").touch()
            time.sleep(SILENT_SECONDS[fault])  # this is what is tested
        assert running.wait() == {DATA: 0, TRAINING: 0}
        assert_nothing_came_twice(running)


@contextlib.contextmanager
def silent(running: Job, fault: str) -> Iterator[None]:
    """The data host says nothing: as a whole, or what it says does not arrive."""
    if fault == "stands still":
        docker("pause", running.container(DATA))
        yield
        docker("unpause", running.container(DATA))
        return
    with running.cut(DATA):
        yield


def test_a_data_host_that_cannot_serve_ends_the_job_and_says_why(image: Image, tmp_path: Path) -> None:
    with job(image, tmp_path, DLC_TF_DATA_PORT="7803") as running:
        codes = running.wait()
        assert codes[DATA] == codes[TRAINING] == 78
        assert "expected two ports" in running.failure(DATA)
