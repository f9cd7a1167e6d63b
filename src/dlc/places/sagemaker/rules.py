"""What the service refuses across fields, and its shapes do not say. Pure.

Only what a job or an option can get wrong is checked: of what `make_request` cannot write there is no rule.
Each rule has its source: the API reference ("API"), the developer guide ("guide"), or an answer of the service that
people have reported ("answer"). Quotas that an account can have raised are notes, not refusals: `list_notes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dlc.job.job_spec import TRAINING_GROUPS
from dlc.places.sagemaker.request import CODE_CHANNEL, ECR
from dlc.places.sagemaker.shapes import Steps, Violation

# Guide, "SageMaker AI managed warm pools": shorter than the shape's own 21,600.
LONGEST_KEEP_ALIVE = 3600
# API, StoppingCondition.
LONGEST_RUN = 28 * 86400
# Guide, quotas of an account that asked for nothing: hosts of one job, and seconds of one job.
USUAL_HOSTS = 20
USUAL_RUN = 5 * 86400
LARGEST_VOLUME_GB = 16384
# Families whose machines have disks of their own, which nobody else can encrypt (API, ResourceConfig).
OWN_DISKS = re.compile(r"ml\.(p3dn|p4d|p4de|p5|p5e|p5en|p6[a-z0-9-]*|g4dn|g5|g6|g6e|trn1|trn1n|trn2|m5d|c5d|r5d)\.")
GPUS = re.compile(r"ml\.(p|g)[0-9]")

Request = Mapping[str, Any]
Rule = Callable[[Request], Iterator[Violation]]


def find_conflicts(request: Request) -> list[Violation]:
    """Return every rule across fields that the request breaks."""
    return [violation for rule in RULES for violation in rule(request)]


def list_notes(request: Request) -> list[str]:
    """Return what is allowed and seldom meant: quotas that most accounts have, hardware that stays idle."""
    hosts = sum(count for _, count, _ in _list_groups(request))
    seconds = request["StoppingCondition"]["MaxRuntimeInSeconds"]
    image = request["AlgorithmSpecification"]["TrainingImage"]
    gpu_types = sorted({kind for kind, _, _ in _list_groups(request) if GPUS.match(kind)})
    notes = []
    if hosts > USUAL_HOSTS:
        notes.append(f"{hosts} hosts: an account has {USUAL_HOSTS} for one job until it asks for more")
    if seconds > USUAL_RUN:
        notes.append(f"max_run_seconds {seconds:,}: an account has {USUAL_RUN:,} until it asks for more")
    if request.get("EnableManagedSpotTraining") and "CheckpointConfig" not in request:
        notes.append("spot without checkpoints: a job whose machines are taken away begins again")
    if gpu_types and "-cpu-" in image:
        notes.append(f"{image} is for CPUs: the GPUs of {', '.join(gpu_types)} stay idle")
    return notes


def _list_groups(request: Request) -> list[tuple[str, int, str]]:
    """Return type, number and name of each group; the only group of a job may have no name."""
    resources = request["ResourceConfig"]
    if "InstanceGroups" in resources:
        groups = resources["InstanceGroups"]
        return [(each["InstanceType"], each["InstanceCount"], each["InstanceGroupName"]) for each in groups]
    return [(resources["InstanceType"], resources["InstanceCount"], "")]


def _check_warm_pool(request: Request) -> Iterator[Violation]:
    """Check what a warm pool goes with (guide, "SageMaker AI managed warm pools", considerations)."""
    resources = request["ResourceConfig"]
    seconds = resources.get("KeepAlivePeriodInSeconds")
    if not seconds:
        return
    path = ("ResourceConfig", "KeepAlivePeriodInSeconds")
    if "InstanceGroups" in resources:
        yield Violation(path, "no warm pool for a job with instance groups", f"{seconds:,} s")
    if request.get("EnableManagedSpotTraining"):
        yield Violation(path, "no warm pool for spot machines", f"{seconds:,} s")
    if seconds > LONGEST_KEEP_ALIVE:
        yield Violation(path, f"at most {LONGEST_KEEP_ALIVE:,} s", f"{seconds:,} s")


def _check_time(request: Request) -> Iterator[Violation]:
    """Check what a job may wait and run (API, StoppingCondition)."""
    limits = request["StoppingCondition"]
    run, wait = limits["MaxRuntimeInSeconds"], limits.get("MaxWaitTimeInSeconds")
    path = ("StoppingCondition", "MaxWaitTimeInSeconds")
    if run > LONGEST_RUN:
        yield Violation(("StoppingCondition", "MaxRuntimeInSeconds"), f"at most {LONGEST_RUN:,} s", f"{run:,} s")
    if wait is not None and not request.get("EnableManagedSpotTraining"):
        yield Violation(path, "nothing without spot: true", f"{wait:,} s")
    elif wait is not None and wait < run:
        yield Violation(path, f"at least the {run:,} s of MaxRuntimeInSeconds", f"{wait:,} s")


def _check_channels(request: Request) -> Iterator[Violation]:
    """Check what modes and groups of channels go with (API, Channel and S3DataSource)."""
    channels = request.get("InputDataConfig", [])
    names = [each["ChannelName"] for each in channels]
    if names.count(CODE_CHANNEL) > 1:
        place = ("InputDataConfig", names.index(CODE_CHANNEL))
        yield Violation(place, "another name: without a network the job's code is this channel", repr(CODE_CHANNEL))
    known = [name for _, _, name in _list_groups(request) if name]
    named = [each["DataSource"].get("S3DataSource", {}).get("InstanceGroupNames", []) for each in channels]
    for index, channel in enumerate(channels):
        path: Steps = ("InputDataConfig", index)
        if any(named) and not named[index]:
            yield Violation(path, "the channel's groups, because another channel has some", "none")
        for group in named[index]:
            if group not in known:
                found = f"{group!r}, which the job does not have"
                yield Violation(path, f"one of the groups {', '.join(known) or '(none)'}", found)
        yield from _check_mode(channel, request["AlgorithmSpecification"]["TrainingInputMode"], path)


def _check_mode(channel: Mapping[str, Any], usual: str, path: Steps) -> Iterator[Violation]:
    mode = channel.get("InputMode", usual)
    if channel.get("CompressionType") == "Gzip" and mode != "Pipe":
        yield Violation((*path, "CompressionType"), f"no compression in mode {mode}, only in Pipe", "Gzip")
    if "FileSystemDataSource" in channel["DataSource"] and mode != "File":
        yield Violation((*path, "InputMode"), "File, for a file system", mode)


def _check_vpc(request: Request) -> Iterator[Violation]:
    """Check the ids of a VPC's parts, and that a file system has one (API, VpcConfig; guide, FSx and EFS channels)."""
    vpc = request.get("VpcConfig", {})
    for key, prefix in (("SecurityGroupIds", "sg-"), ("Subnets", "subnet-")):
        for index, word in enumerate(vpc.get(key, ())):
            if not word.startswith(prefix):
                yield Violation(("VpcConfig", key, index), f"an id such as {prefix}0123456789abcdef0", repr(word))
    channels = request.get("InputDataConfig", [])
    for index, channel in enumerate(channels):
        if "FileSystemDataSource" in channel["DataSource"] and not vpc:
            path = ("InputDataConfig", index, "DataSource")
            yield Violation(path, "subnets and security_groups, for a file system", "none")


def _check_tags(request: Request) -> Iterator[Violation]:
    """Check keys of tags (API, Tag; guide, tagging: `aws:` is reserved)."""
    for index, tag in enumerate(request.get("Tags", ())):
        if tag["Key"].lower().startswith("aws:"):
            yield Violation(("Tags", index, "Key"), "a key that does not begin with aws:", repr(tag["Key"]))


def _check_metrics(request: Request) -> Iterator[Violation]:
    """Check that each metric has an expression with one group (guide, defining metrics)."""
    for index, metric in enumerate(request["AlgorithmSpecification"].get("MetricDefinitions", ())):
        path = ("AlgorithmSpecification", "MetricDefinitions", index, "Regex")
        try:
            groups = re.compile(metric["Regex"]).groups
        except re.error as error:
            yield Violation(path, "a regular expression", f"{metric['Regex']!r}: {error}")
            continue
        if groups != 1:
            yield Violation(path, "one group in parentheses around the number", f"{groups} in {metric['Regex']!r}")


def _check_image(request: Request) -> Iterator[Violation]:
    """Check that the image is in a registry that the service pulls from (guide, "Use your own training image")."""
    path: Steps = ("AlgorithmSpecification", "TrainingImage")
    image = request["AlgorithmSpecification"]["TrainingImage"]
    found = ECR.fullmatch(image)
    region = _find_region(request)
    if not found:
        yield Violation(path, "an image in ECR: ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG", repr(image))
    elif region and found["region"] != region:
        yield Violation(path, f"an image in the job's region {region}", found["region"])


def _find_region(request: Request) -> str:
    return str(request.get("HyperParameters", {}).get("sagemaker_region", "")).strip('"')


def _check_disks(request: Request) -> Iterator[Violation]:
    """Check the size of the disks, and who encrypts them (API, ResourceConfig)."""
    resources = request["ResourceConfig"]
    size = resources.get("VolumeSizeInGB", 0)
    if not 1 <= size <= LARGEST_VOLUME_GB:
        yield Violation(("ResourceConfig", "VolumeSizeInGB"), f"1 to {LARGEST_VOLUME_GB:,} GB", f"{size:,}")
    own = [kind for kind, _, _ in _list_groups(request) if OWN_DISKS.match(kind)]
    if own and "VolumeKmsKeyId" in resources:
        path = ("ResourceConfig", "VolumeKmsKeyId")
        yield Violation(path, f"no key: {own[0]} has disks of its own, which it encrypts itself", "one")


def _check_distribution(request: Request) -> Iterator[Violation]:
    """Check the groups that train together: a name that no group has would be found by the hosts alone."""
    text = request.get("HyperParameters", {}).get(TRAINING_GROUPS, "")
    known = [group for _, _, group in _list_groups(request) if group]
    for group in re.findall(r'"([^"]+)"', text):
        if known and group not in known:
            yield Violation(("HyperParameters", TRAINING_GROUPS), f"groups out of {', '.join(known)}", repr(group))


def _check_isolation(request: Request) -> Iterator[Violation]:
    """Check that a container without a network is not told to fetch its code (guide, network isolation)."""
    place = request.get("HyperParameters", {}).get("sagemaker_submit_directory", "")
    if request.get("EnableNetworkIsolation") and "s3://" in place:
        path = ("HyperParameters", "sagemaker_submit_directory")
        yield Violation(path, "a folder in the container, because the network is isolated", place)


RULES: tuple[Rule, ...] = (
    _check_warm_pool,
    _check_time,
    _check_channels,
    _check_vpc,
    _check_tags,
    _check_metrics,
    _check_image,
    _check_disks,
    _check_distribution,
    _check_isolation,
)
