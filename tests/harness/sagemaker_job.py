"""A job as `dlc submit` hands it to SageMaker, and the options of that place, with what a test changes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlc.job.job_spec import JobSpec
from dlc.places.sagemaker.settings import Settings
from harness.job_spec import group_of, spec_of

ROLE = "arn:aws:iam::123456789012:role/Training"
REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def job(**changes: Any) -> JobSpec:
    plain: dict[str, Any] = {
        "image": "dlc/pytorch:2.13-training-cpu-py311",
        "groups": [group_of("homogeneousCluster", 2, instance_type="ml.c5.xlarge")],
        "hyperparameters": {"lr": "0.1", "optimizer": "Adam"}, "channels": {"training": "s3://data/digits"},
    }  # fmt: skip
    return spec_of(Path("/home/me/train.py"), **{**plain, **changes})


def settings(**changes: Any) -> Settings:
    return Settings.model_validate({"role": ROLE, "region": "eu-west-1", **changes})
