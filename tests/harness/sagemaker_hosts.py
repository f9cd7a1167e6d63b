"""The hosts of a training job as containers: each has what the request says, as the service's machines would."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.engine import docker
from harness.images import Image
from harness.job import Job
from harness.sagemaker import ACCOUNT, ENVIRON, REGION


def find_bridge() -> str:
    """An address of this machine that containers reach."""
    form = "{{(index .IPAM.Config 0).Gateway}}"
    return docker("network", "inspect", "bridge", "--format", form).stdout.strip()


def make_hosts(image: Image, folder: Path, request: Mapping[str, Any], server: str) -> Job:
    """The hosts of a request of CreateTrainingJob. `server` is the address of the account's S3.

    They have no code: the launcher fetches it.
    """
    groups = request["ResourceConfig"]["InstanceGroups"]
    name = request["TrainingJobName"]
    (folder / "no-code").mkdir(parents=True)
    environment = {
        **request.get("Environment", {}),
        **ENVIRON,
        "S3_ENDPOINT_URL": server,
        "TRAINING_JOB_NAME": name,
        "TRAINING_JOB_ARN": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/{name}",
    }
    job = Job(
        image, folder, folder / "no-code", environment=environment,
        groups={each["InstanceGroupName"]: each["InstanceCount"] for each in groups},
    )  # fmt: skip
    # The hosts' common name is their token.
    del job.environment["DLC_JOB_TOKEN"]
    for host in job.hosts:
        config = job.opt_ml(host) / "input/config"
        (config / "hyperparameters.json").write_text(json.dumps(request["HyperParameters"]))
        shutil.rmtree(job.opt_ml(host) / "code")
    return job
