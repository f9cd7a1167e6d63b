"""What a new user's first job meets: a host without a name, and Keras 3 below a strategy that it fails under."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.job_folder import HOROVOD, MPI, JobFolder, hosts


def test_a_host_that_nobody_named_is_reached_as_localhost(tmp_path: Path) -> None:
    alone = JobFolder(tmp_path / "ml").code().hyperparameters()
    assert alone.explain()["env"]["MASTER_ADDR"] == "localhost"  # "algo-1" resolves nowhere
    named = alone.config("resourceconfig", hosts("algo-1"))
    assert named.explain()["env"]["MASTER_ADDR"] == "algo-1"


@pytest.mark.parametrize("platform", [{"PET_NNODES": "1"}, {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "job-0"}])
def test_the_only_host_of_kubeflow_is_reached_as_localhost_by_what_the_launcher_starts(
    tmp_path: Path, platform: dict[str, str]
) -> None:
    job = JobFolder(tmp_path / "ml").code().hyperparameters(**MPI).env(**platform)
    argv = job.process()["argv"]
    assert argv[argv.index("--host") + 1] == "localhost"


def test_tensorflow_on_a_host_that_nobody_named_listens_on_localhost(tmp_path: Path) -> None:
    alone = JobFolder(tmp_path / "ml").code()
    alone.hyperparameters(sagemaker_multi_worker_mirrored_strategy_enabled=True)
    assert json.loads(alone.process()["env"]["TF_CONFIG"])["cluster"] == {"worker": ["localhost:8890"]}


def test_keras_3_below_a_strategy_that_it_fails_under_is_said_before_it_does(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "ml").code().env(DLC_VENV=str(tmp_path / "venv"))
    for library in ("tensorflow", "tf_keras", "horovod"):
        (tmp_path / "venv/lib/python3.11/site-packages" / library).mkdir(parents=True)

    def says() -> bool:
        return "TF_USE_LEGACY_KERAS=1" in json.dumps(job.explain()["decisions"])

    job.hyperparameters()
    assert says() is False
    job.hyperparameters(**HOROVOD)
    assert says()
    job.hyperparameters(sagemaker_multi_worker_mirrored_strategy_enabled=True)
    assert says()
    job.env(TF_USE_LEGACY_KERAS="1")
    assert says() is False
