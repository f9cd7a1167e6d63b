"""Jobs as SageMaker's SDK 2.x sends them: source_dir, entry_point and dependencies in an archive, its own settings."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.engine import CALM
from harness.images import Image
from harness.job import Job

ARCHIVE = "input/data/code/sourcedir.tar.gz"
# What a framework's estimator adds to the user's hyperparameters.
SETTINGS = {
    "sagemaker_submit_directory": f"/opt/ml/{ARCHIVE}",
    "sagemaker_container_log_level": 20,
    "sagemaker_job_name": "training-2026-11-22-04-30-00-123",
    "sagemaker_region": "eu-west-1",
    "sagemaker_instance_type": "ml.c5.xlarge",
}


def estimator_job(
    image: Image,
    folder: Path,
    source_dir: Path,
    entry_point: str,
    *,
    dependencies: tuple[Path, ...] = (),
    hosts: int = 1,
    hyperparameters: Mapping[str, object] | None = None,
    channels: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Job:
    """A job whose code is an archive in the channel `code`, where the SDK puts it for hosts without a network."""
    job = Job(
        image,
        folder,
        source_dir,
        program=entry_point,
        hosts=hosts,
        hyperparameters={**SETTINGS, **(hyperparameters or {})},
        channels=channels,
        environment={**CALM, **(environment or {})},
    )
    for host in job.hosts:
        code, archive = job.opt_ml(host) / "code", job.opt_ml(host) / ARCHIVE
        for dependency in dependencies:
            shutil.copy(dependency, code / dependency.name)
        archive.parent.mkdir(parents=True)
        with tarfile.open(archive, "w:gz") as packed:
            for path in sorted(code.iterdir()):
                packed.add(path, path.name)
        shutil.rmtree(code)
    return job


def ends_as_one(job: Job, per_host: int = 1, seconds: float = 300.0) -> list[dict[str, Any]]:
    """Wait for a job's end and return what its ranks wrote: one world, one set of weights, one model.

    `per_host` ranks are on each host. A rank's loss is of its own weights, on data that all ranks have.
    """
    assert job.wait(seconds) == dict.fromkeys(job.hosts, 0)
    ranks = job.metrics()
    size = len(job.hosts) * per_host
    hosts = [host for host in job.hosts for _ in range(per_host)]
    assert [(rank["rank"], rank["host"]) for rank in ranks] == list(enumerate(hosts))
    assert {rank["world_size"] for rank in ranks} == {size}
    assert [rank["loss"] for rank in ranks] == [pytest.approx(ranks[0]["loss"], rel=1e-4)] * size
    assert files(job, "model")
    for host in job.hosts[1:]:  # beside the state of its random numbers, which Trainer keeps of each rank
        written = {name for name in files(job, "model", host) if not name.startswith("rng_state_")}
        assert written == set(), "only rank 0 writes the model"
    return ranks


def files(job: Job, folder: str, host: str = "algo-1") -> set[str]:
    """Names of the files below a folder of a host's /opt/ml."""
    return {path.name for path in (job.opt_ml(host) / folder).rglob("*") if path.is_file()}
