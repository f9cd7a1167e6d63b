"""An AWS account of moto's server: its S3, ECR, CloudWatch and SageMaker, with what moto's SageMaker lacks."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.core.responses import ActionResult
from moto.sagemaker.models import FakeTrainingJob, sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse
from moto.server import ThreadedMotoServer

from dlc.places.sagemaker import aws, follow

ACCOUNT = "123456789012"
REGION = "eu-west-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/Training"
BUCKET = f"sagemaker-{REGION}-{ACCOUNT}"
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
ENVIRON = {
    "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "NO_PROXY": "*", "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "key", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip


@contextmanager
def serving_aws(host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a server that answers as AWS would."""
    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def open_account(server: str, cache: Path, patch: pytest.MonkeyPatch) -> Account:
    """An account with nothing but a bucket, and a shell with its credentials. `cache` is dlc's."""
    for name, value in {**ENVIRON, "AWS_ENDPOINT_URL": server, "DLC_CACHE_DIR": str(cache)}.items():
        patch.setenv(name, value)
    patch.delenv("AWS_PROFILE", raising=False)
    boto3.setup_default_session()
    aws.forget_clients()
    urllib.request.urlopen(urllib.request.Request(f"{server}/moto-api/reset", method="POST")).close()
    boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    account = Account()
    account.install(patch)
    patch.setattr(follow, "ASK_SECONDS", 0.05)
    return account


@dataclass
class Account:
    """What the account was asked, and what its jobs do. `refuse` gives code and words in place of a job's start."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    refuse: Callable[[], tuple[str, str] | None] = lambda: None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let moto keep whole requests, which it does not, and stop jobs, which it cannot."""
        create, account = SageMakerResponse.create_training_job, self

        def create_training_job(response: SageMakerResponse) -> ActionResult | tuple[str, dict[str, int]]:
            request = json.loads(response.body)
            if refused := account.refuse():
                return json.dumps({"__type": refused[0], "message": refused[1]}), {"status": 400}
            account.requests.append(request)
            answer = create(response)
            account.change(request["TrainingJobName"], training_job_status="InProgress", secondary_status="Training")
            return answer

        def stop_training_job(response: SageMakerResponse) -> ActionResult:
            name = json.loads(response.body)["TrainingJobName"]
            account.stopped.append(name)
            account.change(name, training_job_status="Stopped", secondary_status="Stopped")
            return ActionResult({})

        patch.setattr(SageMakerResponse, "create_training_job", create_training_job)
        patch.setattr(SageMakerResponse, "stop_training_job", stop_training_job, raising=False)

    def has(self, name: str) -> bool:
        """Return whether the service took such a job."""
        return name in sagemaker_backends[ACCOUNT][REGION].training_jobs

    def change(self, name: str, **facts: Any) -> None:
        """Change what the service says of a job."""
        job: FakeTrainingJob = sagemaker_backends[ACCOUNT][REGION].training_jobs[name]
        for key, value in facts.items():
            setattr(job, key, value)

    def end(self, name: str, status: str, reason: str = "") -> None:
        """End a job."""
        self.change(name, training_job_status=status, secondary_status=status, failure_reason=reason or None)

    def print_lines(self, name: str, host: str, lines: Sequence[str]) -> None:
        """Let a host print lines."""
        logs, stream = boto3.client("logs"), f"{name}/{host}-1764324000"
        if not logs.describe_log_groups(logGroupNamePrefix=LOG_GROUP)["logGroups"]:
            logs.create_log_group(logGroupName=LOG_GROUP)
        if not logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=stream)["logStreams"]:
            logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
        events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
        logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)


def push_image(repository: str, *tags: str) -> str:
    """Put a manifest under tags; return its digest."""
    ecr = boto3.client("ecr")
    if repository not in [each["repositoryName"] for each in ecr.describe_repositories()["repositories"]]:
        ecr.create_repository(repositoryName=repository)
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [], "note": tags[0]}
    )
    for tag in tags:
        answer = ecr.put_image(repositoryName=repository, imageManifest=manifest, imageTag=tag)
    return str(answer["image"]["imageId"]["imageDigest"])


def list_objects(bucket: str) -> list[str]:
    """The keys of a bucket."""
    return [each["Key"] for each in boto3.client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())]
