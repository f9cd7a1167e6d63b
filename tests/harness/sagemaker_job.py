"""A job as `dlc submit` hands it to SageMaker, and the options of that place, with what a test changes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dlc.submit.places import SubmittedGroup, SubmittedJob
from dlc.submit.sagemaker.settings import Settings

ROLE = "arn:aws:iam::123456789012:role/Training"
REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def job(**changes: Any) -> SubmittedJob:
    plain = SubmittedJob(
        name="digits", image="dlc/pytorch:2.13-training-cpu-py311",
        groups=(SubmittedGroup("homogeneousCluster", 2, instance_type="ml.c5.xlarge"),),
        code=(Path("/home/me/train.py"),), program="train.py", hyperparameters={"lr": "0.1", "optimizer": "Adam"},
        channels={"training": "s3://data/digits"}, checkpoints="", environment={"DLC_TERMINATION_GRACE": "30"},
        secrets=("DLC_JOB_TOKEN",), folder=Path("/home/me/dlc-jobs/digits"),
    )  # fmt: skip
    return replace(plain, **changes)


def settings(**changes: Any) -> Settings:
    return Settings.model_validate({"role": ROLE, "region": "eu-west-1", **changes})
