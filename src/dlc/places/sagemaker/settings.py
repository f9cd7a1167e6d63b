"""What a job needs on SageMaker beside what it is anywhere: the options below `places.sagemaker` of its file."""

from __future__ import annotations

import configparser
import os
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dlc.checked_yaml.validation import Model
from dlc.core.environment import user_path
from dlc.job.job_spec import Group
from dlc.places.place import PlaceOptions

ROLE = re.compile(r"arn:(aws[a-z-]*):iam::([0-9]{12}):role/.+")
REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")
S3 = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/.*)?")
# Sources of a channel: objects of S3, or a folder of a file system that the job's subnets reach.
SOURCE = re.compile(rf"{S3.pattern}|(efs|fsx)://fs-[0-9a-f]{{8,}}(/.*)?")
DAY_SECONDS = 86400


def _match(pattern: re.Pattern[str], meaning: str) -> AfterValidator:
    """Return the check of an option that may be left out."""

    def check(word: str) -> str:
        if word and not pattern.fullmatch(word):
            raise ValueError(meaning)
        return word

    return AfterValidator(check)


Role = Annotated[str, _match(ROLE, "the ARN of an IAM role, such as arn:aws:iam::123456789012:role/Training")]
Region = Annotated[str, _match(REGION, "a region, such as eu-west-1")]
Source = Annotated[
    str, _match(SOURCE, "an address such as s3://bucket/folder, fsx://fs-0123456789abcdef0/folder or efs://...")
]
S3Address = Annotated[
    str, _match(S3, "an address such as s3://bucket/folder"), AfterValidator(lambda word: word.rstrip("/"))
]
Mode = Literal["", "File", "FastFile", "Pipe"]


class Channel(Model):
    """How a channel gets to the hosts."""

    address: Source = Field(
        default="", description="where its data is, if the job's own `channels` names a folder of this machine"
    )
    mode: Mode = Field(default="", description="File copies it first, FastFile and Pipe stream it")
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = Field(
        default="FullyReplicated", description="all of it to every host, or a share to each"
    )
    groups: tuple[str, ...] = Field(default=(), description="groups that get it; none: all")
    content_type: str = Field(default="", description="MIME type of the data")
    compression: Literal["", "None", "Gzip"] = Field(default="", description="how its objects are compressed (Pipe)")
    manifest: bool = Field(default=False, description="the address is that of a manifest file")


def find_region() -> str:
    """Return the region that the AWS clients of this shell use; empty if nothing names one."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    file = configparser.RawConfigParser()
    try:
        file.read(user_path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config"))
    except (configparser.Error, UnicodeDecodeError):
        # The AWS client says what is wrong with it.
        return ""
    section = "default" if profile == "default" else f"profile {profile}"
    return file.get(section, "region", fallback="")


class Settings(PlaceOptions):
    """The options of `places.sagemaker`."""

    role: Role = Field(default="", description="ARN of the role that the job has; needed")
    region: Region = Field(
        default_factory=find_region,
        description="region of the job; without it AWS_REGION, AWS_DEFAULT_REGION or the profile's",
    )
    image: str = Field(
        default="", description="address of the image in ECR; without it where `dlc push --to ecr` has put the job's"
    )
    instance_type: str = Field(default="", description="type of machine of all hosts, such as ml.c5.xlarge")
    instance_types: dict[str, str] = Field(default={}, description="the same of single groups, by name")
    output: S3Address = Field(
        default="", description="where results go; without it s3://sagemaker-REGION-ACCOUNT, as the SDK has it"
    )
    source: S3Address = Field(default="", description="where the code is uploaded to; without it the bucket of output")
    channels: dict[str, Channel] = Field(default={}, description="how channels get to the hosts, by name")
    checkpoints: S3Address = Field(
        default="", description="where checkpoints go, if the job's own `checkpoints` names a folder of this machine"
    )
    input_mode: Literal["File", "FastFile", "Pipe"] = Field(
        default="File", description="mode of channels that say none"
    )
    volume_gb: int = Field(default=30, description="GB of each host's disk, unless its machine has disks of its own")
    spot: bool = Field(default=False, description="train on spare capacity, which may be taken away")
    max_run_seconds: int = Field(default=DAY_SECONDS, description="how long the job may run")
    max_wait_seconds: int | None = Field(
        default=None, description="with spot: how long it may wait and run; without it twice max_run_seconds"
    )
    max_pending_seconds: int | None = Field(default=None, description="how long it may wait for machines")
    keep_alive_seconds: int | None = Field(
        default=None, description="how long machines stay for a next job: a warm pool"
    )
    retries: int | None = Field(default=None, description="starts again after an error of the service")
    subnets: tuple[str, ...] = Field(default=(), description="subnets of a VPC")
    security_groups: tuple[str, ...] = Field(default=(), description="security groups of that VPC")
    isolate_network: bool = Field(default=False, description="no network in the containers, S3 included")
    encrypt_traffic: bool = Field(default=False, description="encrypt what hosts send to each other")
    output_key: str = Field(default="", description="KMS key for results and uploaded code")
    volume_key: str = Field(default="", description="KMS key for the hosts' disks")
    compress_output: bool = Field(default=True, description="results as model.tar.gz, or as files")
    metrics: dict[str, str] = Field(default={}, description="name -> regular expression with a group, for CloudWatch")
    tags: dict[str, str] = Field(default={}, description="tags of the job")

    def find_type(self, group: Group) -> str:
        """Return the type of machine of a group: what is said here, else what the job says; empty if nobody does."""
        return self.instance_types.get(group.name) or self.instance_type or group.instance_type

    @property
    def partition(self) -> str:
        """Return the part of AWS that the role is in, such as aws or aws-cn."""
        found = ROLE.fullmatch(self.role)
        return found[1] if found else "aws"

    @property
    def account(self) -> str:
        """Return the account of the role, which is the job's; empty without a role."""
        found = ROLE.fullmatch(self.role)
        return found[2] if found else ""

    @property
    def output_address(self) -> str:
        """Return where results go."""
        return self.output or f"s3://sagemaker-{self.region}-{self.account}"

    @property
    def owns_bucket(self) -> bool:
        """Tell whether the code goes to the account's own bucket of the SDK, whose name anybody can guess."""
        return not (self.source or self.output)

    @property
    def registry(self) -> str:
        """Return the account's registry."""
        suffix = ".cn" if self.partition == "aws-cn" else ""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com{suffix}"
