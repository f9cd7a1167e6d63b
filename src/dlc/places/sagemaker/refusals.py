"""What SageMaker cannot do of a job, each with its place in the job's file. Pure but for botocore's description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dlc.checked_yaml.problems import did_you_mean
from dlc.job.job_spec import GRACE, ONLY_GROUP, JobSpec
from dlc.job.values import is_address
from dlc.places.place import Refusal
from dlc.places.refusals import (
    name_group_keys,
    refuse_group_images,
    refuse_share,
    refuse_shared_memory,
    refuse_variables,
)
from dlc.places.sagemaker.request import find_channels, locate_channel, locate_checkpoints, make_request
from dlc.places.sagemaker.rules import find_conflicts
from dlc.places.sagemaker.settings import SOURCE, Settings
from dlc.places.sagemaker.shapes import Steps, Violation, find_violations, format_path, read_shapes

# Seconds from the service's SIGTERM to its SIGKILL.
GRACE_SECONDS = 120
NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
OWN = ("places", "sagemaker")
# Beginning of a path in the request -> key in the place's options.
OPTIONS_OF: Mapping[tuple[str, ...], str] = {
    ("RoleArn",): "role",
    ("OutputDataConfig", "S3OutputPath"): "output",
    ("OutputDataConfig", "KmsKeyId"): "output_key",
    ("ResourceConfig", "VolumeSizeInGB"): "volume_gb",
    ("ResourceConfig", "VolumeKmsKeyId"): "volume_key",
    ("ResourceConfig", "KeepAlivePeriodInSeconds"): "keep_alive_seconds",
    ("StoppingCondition", "MaxRuntimeInSeconds"): "max_run_seconds",
    ("StoppingCondition", "MaxWaitTimeInSeconds"): "max_wait_seconds",
    ("StoppingCondition", "MaxPendingTimeInSeconds"): "max_pending_seconds",
    ("RetryStrategy",): "retries",
    ("VpcConfig", "SecurityGroupIds"): "security_groups",
    ("VpcConfig", "Subnets"): "subnets",
    ("Tags",): "tags",
    ("AlgorithmSpecification", "MetricDefinitions"): "metrics",
    ("CheckpointConfig",): "checkpoints",
}


def refuse_job(job: JobSpec, options: Settings) -> list[Refusal]:
    """Return all that SageMaker cannot do, nothing if it can do the job."""
    found = [*_refuse_settings(options), *_refuse_parts(job), *_refuse_types(job, options)]
    found += [*_refuse_folders(job, options), *refuse_group_images(job)]
    # A grace that is too long is said already.
    found += [
        each for each in refuse_variables(job, "SageMaker") if each.keys[1] != GRACE or job.grace <= GRACE_SECONDS
    ]
    # Without account and region no address of the request is one.
    if options.role and options.region:
        said = {refusal.keys for refusal in found}
        # What is said first is said in the job's own words.
        found += [each for each in check_request(make_request(job, options), job, options) if each.keys not in said]
    return found


def check_request(request: Mapping[str, Any], job: JobSpec, options: Settings) -> list[Refusal]:
    """Return what the service would refuse of a request."""
    shapes = read_shapes()
    violations = [*(find_violations(request, shapes) if shapes else ()), *find_conflicts(request)]
    return [_as_refusal(violation, request, job, options) for violation in violations]


def _refuse_settings(options: Settings) -> Iterator[Refusal]:
    if not options.role:
        hint = "--with role=ARN; aws iam list-roles shows those of the account"
        yield Refusal((*OWN, "role"), "the ARN of the role that the job has", "none", hint)
    if not options.region:
        hint = "--with region=eu-west-1, or AWS_REGION, or aws configure"
        yield Refusal((*OWN, "region"), "a region", "none", hint)


def _refuse_parts(job: JobSpec) -> Iterator[Refusal]:
    """Yield what `dlc run` does and no request can say."""
    if not NAME.fullmatch(job.name):
        better = re.sub(r"[^A-Za-z0-9]+", "-", job.name).strip("-")[:63]
        yield Refusal(("name",), "a name of letters, digits and -", repr(job.name), f"name: {better or 'job'}")
    if job.user:
        yield Refusal(("user",), "the image's own user", repr(job.user), "set it in the image: dlc build --set")
    yield from refuse_shared_memory(job, "SageMaker")
    if job.grace > GRACE_SECONDS:
        yield Refusal(("grace",), f"at most {GRACE_SECONDS}, which is SageMaker's time", str(job.grace))


def _refuse_types(job: JobSpec, options: Settings) -> Iterator[Refusal]:
    """Yield groups whose machines nobody names, and names for groups that the job does not have."""
    names = [group.name for group in job.host_groups]
    for group in job.host_groups:
        kind, keys = options.find_type(group), _find_type_keys(group.name, options)
        if not kind:
            one = "instance_type" if group.name == ONLY_GROUP else f"instance_types.{group.name}"
            hint = f"--with {one}=ml.c5.xlarge; dlc advise compares machines"
            yield Refusal(keys, "a type of machine, such as ml.c5.xlarge", "none", hint)
        elif not kind.startswith("ml."):
            yield Refusal(keys, "a type that begins with ml.", repr(kind), f"did you mean 'ml.{kind}'?")
        if kind:
            yield from refuse_share(group, kind)
    for name in options.instance_types:
        if name not in names:
            expected = f"a group of the job ({', '.join(names)})"
            yield Refusal((*OWN, "instance_types", name), expected, repr(name), did_you_mean(name, names))


def _refuse_folders(job: JobSpec, options: Settings) -> Iterator[Refusal]:
    """Yield what is only on this machine, or at an address that SageMaker cannot read."""
    channels = find_channels(job)
    bucket = options.output_address if options.output or (options.account and options.region) else "s3://BUCKET"
    for keys, word in job.list_channels():
        name = keys[-1]
        address = locate_channel(name, word, options)
        if not address:
            yield Refusal(
                keys,
                "data that SageMaker can read, such as s3://bucket/data",
                f"the folder {word}",
                f"aws s3 sync {word} {bucket}/{job.name}/{name}, then "
                f"--with channels.{name}.address={bucket}/{job.name}/{name}",
            )
        elif not SOURCE.fullmatch(address):
            yield Refusal(keys, "an address of s3://, fsx:// or efs://", address)
        elif word != channels[name][0] or (keys[0] == "groups" and name in job.channels):
            yield Refusal(keys, "a channel of one address, for all groups or for some", word, "another name for it")
    if job.checkpoints and not locate_checkpoints(job, options):
        hint = f"--with checkpoints={bucket}/{job.name}/checkpoints"
        yield Refusal(("checkpoints",), "an address such as s3://bucket/folder", f"the folder {job.checkpoints}", hint)
    elif job.checkpoints and is_address(job.checkpoints) and not locate_checkpoints(job, options).startswith("s3://"):
        yield Refusal(("checkpoints",), "an address such as s3://bucket/folder", job.checkpoints)
    for name in options.channels:
        if name not in channels:
            hint = did_you_mean(name, channels) or f"name it below the job's own `channels` too: {name}: FOLDER"
            known = ", ".join(channels) or "none"
            yield Refusal((*OWN, "channels", name), f"a channel of the job ({known})", repr(name), hint)


def _as_refusal(violation: Violation, request: Mapping[str, Any], job: JobSpec, options: Settings) -> Refusal:
    keys = find_keys(violation.path, request, job, options)
    hint = "; ".join(word for word in (violation.hint, f"in the request: {format_path(violation.path)}") if word)
    return Refusal(keys, violation.expected, violation.found, hint)


def find_keys(path: Steps, request: Mapping[str, Any], job: JobSpec, options: Settings) -> tuple[str, ...]:
    """Return where in the job's file stands what a path of the request holds."""
    words = tuple(str(step) for step in path)
    if path[0] == "TrainingJobName":
        return ("name",)
    if path[0] in ("HyperParameters", "Environment"):
        return (path[0].lower(), *words[1:2])
    if path[:2] == ("AlgorithmSpecification", "TrainingImage"):
        return (*OWN, "image") if options.image else ("image",)
    if path[:2] == ("AlgorithmSpecification", "ContainerArguments"):
        return ("arguments",)
    if path[0] == "ResourceConfig" and len(path) > 1 and path[1] in ("InstanceGroups", "InstanceType", "InstanceCount"):
        return _find_group_keys(path, job, options)
    if path[0] == "InputDataConfig":
        return _find_channel_keys(path, request, job, options)
    if path[0] == "CheckpointConfig" and not options.checkpoints:
        return ("checkpoints",)
    option = next((key for start, key in OPTIONS_OF.items() if words[: len(start)] == start), "")
    return (*OWN, option) if option else OWN


def _find_group_keys(path: Steps, job: JobSpec, options: Settings) -> tuple[str, ...]:
    index = path[2] if len(path) > 2 else 0
    if path[1] == "InstanceGroups" and len(path) == 2:
        return ("groups",)
    name = job.host_groups[int(index)].name if job.has_groups else ONLY_GROUP
    if path[-1] == "InstanceType":
        return _find_type_keys(name, options)
    return name_group_keys(name, "hosts")


def _find_type_keys(group: str, options: Settings) -> tuple[str, ...]:
    """Return where the type of a group's machines stands."""
    if group in options.instance_types:
        return (*OWN, "instance_types", group)
    return (*OWN, "instance_type") if options.instance_type else name_group_keys(group, "instance_type")


def _find_channel_keys(path: Steps, request: Mapping[str, Any], job: JobSpec, options: Settings) -> tuple[str, ...]:
    if len(path) == 1:
        return ("channels",)
    name = str(request["InputDataConfig"][path[1]]["ChannelName"])
    if name in options.channels:
        return (*OWN, "channels", name)
    return next((keys for keys, _ in job.list_channels() if keys[-1] == name), ("channels", name))
