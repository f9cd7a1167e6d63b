"""Mistakes in a job for SageMaker, planted one by one: each is named by its place before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

from dlc.core.errors import SpecError, UsageError
from dlc.job.job_file import read_job_file
from dlc.places import sagemaker
from dlc.places.place import load_place, read_place_options
from dlc.places.sagemaker.request import make_request
from dlc.places.sagemaker.shapes import find_violations, read_shapes
from harness.job_spec import group_of
from harness.sagemaker_job import REGISTRY, job, settings

GROUPS = (
    group_of("data", 2, instance_type="ml.c5.xlarge"),
    group_of("dnn", 1, instance_type="ml.g5.xlarge"),
)
VPC = {"subnets": ["subnet-0a"], "security_groups": ["sg-0a"]}

# What of the job or of the options is wrong; where it is named; what the refusal says.
MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a name with a dot": ({"name": "digits.v2"}, {}, "name", "letters, digits and -"),
    "a name of 64 letters": ({"name": "a" * 64}, {}, "name", "letters, digits and -"),
    "a user": ({"user": "1000"}, {}, "user", "the image's own user"),
    "shared memory": ({"shared_memory": "16g"}, {}, "shared_memory", "SageMaker sets it by the machine"),
    "a grace of five minutes": ({"grace": 300}, {}, "grace", "at most 120"),
    "one GPU of a machine": (
        {"groups": (group_of("homogeneousCluster", 1, instance_type="ml.g5.xlarge", gpus='"device=0"'),)},
        {}, "resources.gpus", "a host has all of its machine",
    ),
    "no type of machine": (
        {"groups": (group_of("homogeneousCluster", 1),)}, {}, "resources.instance_type", "none",
    ),
    "a group without a type": (
        {"groups": (GROUPS[0], group_of("dnn", 1))}, {}, "groups.dnn.instance_type", "none",
    ),
    "a type without ml.": (
        {}, {"instance_type": "c5.xlarge"}, "places.sagemaker.instance_type", "did you mean 'ml.c5.xlarge'?",
    ),
    "a type with a typo": (
        {}, {"instance_type": "ml.c5.xlrge"}, "places.sagemaker.instance_type", "did you mean 'ml.c5.xlarge'?",
    ),
    "a type of a group that is none": (
        {"groups": GROUPS}, {"instance_types": {"dn": "ml.g5.xlarge"}}, "places.sagemaker.instance_types.dn",
        "did you mean 'dnn'?",
    ),
    "six groups": (
        {"groups": tuple(group_of(f"g{n}", 1, instance_type="ml.c5.xlarge") for n in range(6))}, {},
        "groups", "at most 5 entries, found 6",
    ),
    "a folder as a channel": (
        {"channels": {"training": "/home/me/data"}}, {}, "channels.training",
        "aws s3 sync /home/me/data s3://sagemaker-eu-west-1-123456789012/digits/training",
    ),
    "a claim of Kubernetes as a channel": (
        {"channels": {"training": "pvc://claim/data"}}, {}, "channels.training", "s3://, fsx:// or efs://",
    ),
    "a bucket with capitals": (
        {"channels": {"training": "s3://My_Bucket/data"}}, {}, "channels.training", "s3://, fsx:// or efs://",
    ),
    "a channel of the options that the job lacks": (
        {}, {"channels": {"trainin": {"mode": "Pipe"}}}, "places.sagemaker.channels.trainin",
        "did you mean 'training'?",
    ),
    "a channel with a blank": ({"channels": {"my data": "s3://data/x"}}, {}, "channels.my data", "of the form"),
    "21 channels": (
        {"channels": {f"c{n}": "s3://data/x" for n in range(21)}}, {}, "channels", "at most 20 entries, found 21",
    ),
    "a group of a channel that is none": (
        {"groups": GROUPS}, {"channels": {"training": {"groups": ["dn"]}}}, "places.sagemaker.channels.training",
        "one of the groups data, dnn",
    ),
    "groups for one of two channels": (
        {"groups": GROUPS, "channels": {"training": "s3://data/a", "test": "s3://data/b"}},
        {"channels": {"training": {"groups": ["dnn"]}}}, "channels.test", "the channel's groups",
    ),
    "compressed objects in mode File": (
        {}, {"channels": {"training": {"compression": "Gzip"}}}, "places.sagemaker.channels.training", "only in Pipe",
    ),
    "a file system without a VPC": (
        {"channels": {"training": "efs://fs-01234567/data"}}, {}, "channels.training", "subnets and security_groups",
    ),
    "a file system that is streamed": (
        {"channels": {"training": "efs://fs-01234567/data"}}, {**VPC, "input_mode": "FastFile"}, "channels.training",
        "File, for a file system",
    ),
    "a channel called code, without a network": (
        {"channels": {"code": "s3://data/x"}}, {"isolate_network": True}, "channels.code",
        "another name: without a network the job's code is this channel",
    ),
    "code at an address, without a network": (
        {"hyperparameters": {"sagemaker_submit_directory": "s3://data/code.tar.gz"}}, {"isolate_network": True},
        "hyperparameters.sagemaker_submit_directory", "a folder in the container, because the network is isolated",
    ),
    "checkpoints in a folder": (
        {"checkpoints": "/home/me/kept"}, {}, "checkpoints", "--with checkpoints=s3://sagemaker-eu-west-1-123456789012",
    ),
    "a hyperparameter of 3,000 characters": (
        {"hyperparameters": {"layers": "x" * 3000}}, {}, "hyperparameters.layers",
        "at most 2,500 characters, found 3,000",
    ),
    "150 hyperparameters": (
        {"hyperparameters": {f"h{n}": "1" for n in range(150)}}, {}, "hyperparameters",
        "at most 100 entries, found 155",
    ),
    "a distribution over a group that is none": (
        {"groups": GROUPS, "hyperparameters": {"sagemaker_distribution_instance_groups": '["dnn_group"]'}}, {},
        "hyperparameters.sagemaker_distribution_instance_groups", "groups out of data, dnn",
    ),
    "a variable with a dash": (
        {"environment": {"MY-VAR": "1"}}, {}, "environment.MY-VAR", "found 'MY-VAR'",
    ),
    "a variable of 600 characters": (
        {"environment": {"TEXT": "x" * 600}}, {}, "environment.TEXT", "at most 512 characters, found 600 characters",
    ),
    "an argument of 300 characters": ({"arguments": ("x" * 300,)}, {}, "arguments", "at most 256 characters"),
    "a role with a blank": (
        {}, {"role": "arn:aws:iam::123456789012:role/My Role"}, "places.sagemaker.role", "text of the form arn:aws",
    ),
    "no role": ({}, {"role": ""}, "places.sagemaker.role", "the ARN of the role"),
    "no region": ({}, {"region": ""}, "places.sagemaker.region", "a region, found none"),
    "an image of another region": (
        {"image": f"{REGISTRY.replace('eu-west-1', 'us-east-1')}/dlc/pytorch:2.13"}, {}, "image",
        "the job's region eu-west-1",
    ),
    "GPUs of a machine that has none": (
        {"groups": (group_of("homogeneousCluster", 1, gpus="2", instance_type="ml.c5.xlarge"),)},
        {"instance_type": ""}, "resources.gpus", "none, for ml.c5.xlarge has no GPUs",
    ),
    "more memory than the machine has": (
        {"groups": (group_of("homogeneousCluster", 1, memory="100000g", instance_type="ml.c5.xlarge"),)},
        {"instance_type": ""}, "resources.memory", "at most what ml.c5.xlarge has, 8g",
    ),
    "more CPUs than the machine has": (
        {"groups": (group_of("data", 1, cpus="5", instance_type="ml.c5.xlarge"),)}, {"instance_type": ""},
        "groups.data.cpus", "at most what ml.c5.xlarge has, 4",
    ),
    "some of the machine's GPUs": (
        {"groups": (group_of("homogeneousCluster", 1, gpus="2"),)}, {"instance_type": "ml.p3.16xlarge"},
        "resources.gpus", "all, or the 8 that ml.p3.16xlarge has",
    ),
    "hosts that the file names": (
        {"environment": {"DLC_HOSTS": "a,b"}}, {}, "environment.DLC_HOSTS", "hosts that SageMaker names",
    ),
    "an image of another registry": (
        {"image": "registry.example/dlc/pytorch:2.13"}, {}, "image", "an image in ECR",
    ),
    "shared memory that is stated": (
        {"shared_memory": "8g"}, {}, "shared_memory", "SageMaker sets it by the machine",
    ),
    "an image outside of ECR": (
        {}, {"image": "docker.io/library/python:3.11"}, "places.sagemaker.image", "an image in ECR",
    ),
    "wait without spot": (
        {}, {"max_wait_seconds": 7200}, "places.sagemaker.max_wait_seconds", "nothing without spot: true",
    ),
    "a wait that is shorter than the run": (
        {}, {"spot": True, "max_run_seconds": 7200, "max_wait_seconds": 3600}, "places.sagemaker.max_wait_seconds",
        "at least the 7,200 s",
    ),
    "a run of 29 days": (
        {}, {"max_run_seconds": 29 * 86400}, "places.sagemaker.max_run_seconds", "at most 2,419,200 s",
    ),
    "a run of no time": ({}, {"max_run_seconds": 0}, "places.sagemaker.max_run_seconds", "at least 1, found 0"),
    "a pending time of a minute": (
        {}, {"max_pending_seconds": 60}, "places.sagemaker.max_pending_seconds", "at least 1,800, found 60",
    ),
    "31 retries": ({}, {"retries": 31}, "places.sagemaker.retries", "at most 30, found 31"),
    "a warm pool of two hours": (
        {}, {"keep_alive_seconds": 7200}, "places.sagemaker.keep_alive_seconds", "at most 3,600 s",
    ),
    "a warm pool of spot machines": (
        {}, {"keep_alive_seconds": 600, "spot": True}, "places.sagemaker.keep_alive_seconds", "no warm pool for spot",
    ),
    "a warm pool with groups": (
        {"groups": GROUPS}, {"keep_alive_seconds": 600}, "places.sagemaker.keep_alive_seconds",
        "no warm pool for a job with instance groups",
    ),
    "subnets without security groups": (
        {}, {"subnets": ["subnet-0a"]}, "places.sagemaker.security_groups", "a value, found none",
    ),
    "17 subnets": (
        {}, {**VPC, "subnets": [f"subnet-{n}" for n in range(17)]}, "places.sagemaker.subnets", "at most 16 entries",
    ),
    "security group and subnet exchanged": (
        {}, {"subnets": ["sg-0a"], "security_groups": ["subnet-0a"]}, "places.sagemaker.security_groups",
        "an id such as sg-0123456789abcdef0",
    ),
    "a metric without a group": (
        {}, {"metrics": {"loss": "loss [0-9.]+"}}, "places.sagemaker.metrics", "one group in parentheses",
    ),
    "a metric that is no expression": (
        {}, {"metrics": {"loss": "loss ([0-9.]+"}}, "places.sagemaker.metrics", "a regular expression",
    ),
    "41 metrics": (
        {}, {"metrics": {f"m{n}": "(.)" for n in range(41)}}, "places.sagemaker.metrics", "at most 40 entries",
    ),
    "a tag of aws:": ({}, {"tags": {"aws:team": "x"}}, "places.sagemaker.tags", "does not begin with aws:"),
    "a tag with a bracket": ({}, {"tags": {"team": "<me>"}}, "places.sagemaker.tags", "of the form"),
    "a key for disks of the machine": (
        {}, {"instance_type": "ml.g5.xlarge", "volume_key": "alias/disk"}, "places.sagemaker.volume_key",
        "has disks of its own",
    ),
    "a disk of 0 GB": ({}, {"volume_gb": 0}, "places.sagemaker.volume_gb", "1 to 16,384 GB"),
    "a key with a blank": ({}, {"output_key": "my key"}, "places.sagemaker.output_key", "of the form"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_by_its_place(mistake: str) -> None:
    changes, options, place, words = MISTAKES[mistake]
    found = {".".join(each.keys): each for each in sagemaker.refuse_job(job(**changes), settings(**options))}
    assert place in found, list(found.values())
    refusal = found[place]
    assert words in f"expected {refusal.expected}, found {refusal.found}; {refusal.hint}"


def test_all_mistakes_of_a_job_are_told_at_once() -> None:
    found = sagemaker.refuse_job(job(user="1000", grace=300), settings(spot=False, max_wait_seconds=5, volume_gb=0))
    assert [each.keys[-1] for each in found] == ["user", "grace", "max_wait_seconds", "volume_gb"]


def test_no_value_of_a_variable_is_in_a_refusal() -> None:
    (refusal,) = sagemaker.refuse_job(job(environment={"KEY": "s3cret" * 100}), settings())
    assert "s3cret" not in str(refusal)


def make_requests() -> dict[str, dict[str, Any]]:
    """The requests of the golden files, and requests with options that no golden file has."""
    files = sorted((Path(__file__).parent / "documents").glob("*/sagemaker.txt"))
    made = {file.parent.name: json.loads(file.read_text()) for file in files if file.read_text().startswith("{")}
    spot = settings(**VPC, spot=True, retries=3, isolate_network=True, output_key="alias/a", volume_key="alias/b")
    pool = settings(
        keep_alive_seconds=60, max_pending_seconds=7200, metrics={"loss": "(.)"}, tags={"a": "b"},
        channels={"training": {"address": "fsx://fs-0123456789abcdef0/data", "mode": "File"}},
    )  # fmt: skip
    return {**made, "spot": make_request(job(checkpoints="s3://a/b"), spot), "pool": make_request(job(), pool)}


@pytest.fixture(scope="module")
def described() -> Shape:
    """The request as botocore describes it."""
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    return model.operation_model("CreateTrainingJob").input_shape


@pytest.mark.parametrize("request_name", make_requests())
def test_botocore_takes_the_types_and_keys_of_every_request(request_name: str, described: Shape) -> None:
    """So dlc need not check them, and boto3, which does it before it sends a request, finds nothing."""
    assert ParamValidator().validate(make_requests()[request_name], described).generate_report() == ""


def test_botocore_itself_knows_no_largest_value_no_pattern_and_no_list_of_values(described: Shape) -> None:
    """The reason for `shapes.py`: with a botocore that does know them it can go."""
    request = make_request(job(arguments=("x" * 300,)), settings(retries=31, instance_type="ml.c5.xlrge"))
    request["TrainingJobName"] = "digits.v2"
    shapes = read_shapes()
    assert shapes is not None
    assert len(list(find_violations(request, shapes))) == 4
    assert ParamValidator().validate(request, described).generate_report() == ""


def test_without_botocore_the_rules_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlc.places.sagemaker.refusals.read_shapes", lambda: None)
    (refusal,) = sagemaker.refuse_job(job(), settings(max_wait_seconds=7200))
    assert refusal.keys[-1] == "max_wait_seconds"


# The options' own model: what is wrong in the file or behind --with has its place there.
OPTIONS = {
    "role=Training": "--with role: role: expected the ARN of an IAM role",
    "region=Ireland": "--with region: region: expected a region, such as eu-west-1",
    "rol=x": "did you mean 'role'?",
    "output=/home/me": "--with output: output: expected an address such as s3://bucket/folder",
    "volume_gb=big": "--with volume_gb: volume_gb: expected a valid integer",
    "spot=perhaps": "--with spot: spot: expected a valid boolean",
    "input_mode=fastfile": "expected 'File', 'FastFile' or 'Pipe'",
    "channels.training.distribution=Sharded": "expected 'FullyReplicated' or 'ShardedByS3Key'",
    "channels.training.address=./data": "expected an address such as s3://bucket/folder",
    "channels.training.mod=File": "did you mean 'mode'?",
}


@pytest.mark.parametrize("word", OPTIONS)
def test_a_wrong_option_is_named(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_place_options(load_place("sagemaker"), "sagemaker", None, [word])
    assert OPTIONS[word] in caught.value.message


def test_a_mistake_in_the_file_has_its_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    text = "image: dlc/x:1\nscript: train.py\nplaces:\n  sagemaker:\n    role: arn:aws:iam::1:role/x\n    spott: yes\n"
    (tmp_path / "job.yml").write_text(text)
    file = read_job_file(tmp_path / "job.yml")
    with pytest.raises(SpecError) as caught:
        read_place_options(load_place("sagemaker"), "sagemaker", file.node, [])
    assert "job.yml:5:11: role: expected the ARN of an IAM role" in caught.value.message
    assert "job.yml:6:5: spott: expected one of " in caught.value.message
