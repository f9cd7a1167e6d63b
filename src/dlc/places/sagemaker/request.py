"""The request of CreateTrainingJob that a job becomes, as the SageMaker SDK writes it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dlc.core.image_references import split_registry
from dlc.job.job_spec import GRACE, PROGRAMS, TOKEN, Group, JobSpec
from dlc.job.values import is_address
from dlc.places.place import BASE
from dlc.places.sagemaker.settings import Channel, Settings

ARCHIVE = "sourcedir.tar.gz"
# The SDK's: it is where containers without a network find their code.
CODE_CHANNEL = "code"
CODE_FOLDER = f"{BASE}/input/data/{CODE_CHANNEL}"
# INFO, as the SDK sends it.
LOG_LEVEL = 20
CHECKPOINTS = f"{BASE}/checkpoints"
# The hyperparameter that says the same, with room for 2,500 characters instead of 512.
PROGRAMS_PARAMETER = "sagemaker_group_programs"
# The launcher knows SageMaker's 120 seconds, and makes the token of the job's ARN.
LEFT_OUT = (GRACE, TOKEN, PROGRAMS)
# In place of a secret's value, which nobody is shown.
HIDDEN = "(hidden)"
# A file system's scheme -> the service's word.
FILE_SYSTEMS = {"efs": "EFS", "fsx": "FSxLustre"}
ECR = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+)(:(?P<tag>[A-Za-z0-9_.-]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def make_request(job: JobSpec, settings: Settings) -> dict[str, Any]:
    """Return the request. Values of secrets are left open, and the image has no digest yet."""
    request: dict[str, Any] = {
        "TrainingJobName": job.name,
        "AlgorithmSpecification": _make_algorithm(job, settings),
        "RoleArn": settings.role,
        "OutputDataConfig": _drop_empty(
            {
                "S3OutputPath": settings.output_address,
                "KmsKeyId": settings.output_key,
                "CompressionType": "" if settings.compress_output else "NONE",
            }
        ),
        "ResourceConfig": _make_resources(job, settings),
        "StoppingCondition": _make_limits(settings),
        "HyperParameters": _make_hyperparameters(job, settings),
    }
    optional = {
        "InputDataConfig": _make_channels(job, settings),
        "Environment": _make_environment(job),
        "CheckpointConfig": _make_checkpoints(job, settings),
        "VpcConfig": _drop_empty(
            {"SecurityGroupIds": list(settings.security_groups), "Subnets": list(settings.subnets)}
        ),
        "Tags": [{"Key": key, "Value": value} for key, value in settings.tags.items()],
        "RetryStrategy": {} if settings.retries is None else {"MaximumRetryAttempts": settings.retries},
        "EnableManagedSpotTraining": settings.spot,
        "EnableNetworkIsolation": settings.isolate_network,
        "EnableInterContainerTrafficEncryption": settings.encrypt_traffic,
    }
    return {**request, **_drop_empty(optional)}


def locate_archive(job: JobSpec, settings: Settings) -> str:
    """Return the address of the job's code, where the SDK would put it."""
    base = settings.source or "/".join(settings.output_address.split("/")[:3])
    return f"{base}/{job.name}/source/{ARCHIVE}"


def locate_image(job: JobSpec, settings: Settings) -> str:
    """Return the image's address in ECR; of an image of this machine the place where `dlc push --to ecr` puts it."""
    named = settings.image or job.image
    return named if split_registry(named)[0] or settings.image else f"{settings.registry}/{named}"


def locate_channel(name: str, word: str, settings: Settings) -> str:
    """Return the address of a channel; empty if it is only a folder of this machine, `word`."""
    own = settings.channels.get(name, Channel()).address
    return own or (word if is_address(word) else "")


def find_channels(job: JobSpec) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Map channels to where they are, and to the groups that alone have them: none for a channel of all groups."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {name: (word, ()) for name, word in job.channels.items()}
    for group, spec in job.groups.items():
        for name, word in spec.channels.items():
            found[name] = (word, (*found.get(name, (word, ()))[1], group))
    return found


def locate_checkpoints(job: JobSpec, settings: Settings) -> str:
    """Return the address of the checkpoints; empty if they are only a folder of this machine, or there are none."""
    return settings.checkpoints or (job.checkpoints if is_address(job.checkpoints) else "")


def _make_algorithm(job: JobSpec, settings: Settings) -> dict[str, Any]:
    metrics = [{"Name": name, "Regex": regex} for name, regex in settings.metrics.items()]
    return {
        "TrainingImage": locate_image(job, settings),
        "TrainingInputMode": settings.input_mode,
        **_drop_empty(
            {
                "MetricDefinitions": metrics,
                "ContainerArguments": ["train", *job.arguments] if job.arguments else [],
            }
        ),
    }


def _make_resources(job: JobSpec, settings: Settings) -> dict[str, Any]:
    keep_alive = settings.keep_alive_seconds
    return {
        **(_make_groups(job, settings) if job.has_groups else _make_instances(job.host_groups[0], settings)),
        "VolumeSizeInGB": settings.volume_gb,
        **({} if keep_alive is None else {"KeepAlivePeriodInSeconds": keep_alive}),
        **_drop_empty({"VolumeKmsKeyId": settings.volume_key}),
    }


def _make_instances(group: Group, settings: Settings) -> dict[str, Any]:
    return {"InstanceType": settings.find_type(group), "InstanceCount": group.hosts}


def _make_groups(job: JobSpec, settings: Settings) -> dict[str, Any]:
    groups = [{"InstanceGroupName": group.name, **_make_instances(group, settings)} for group in job.host_groups]
    return {"InstanceGroups": groups}


def _make_limits(settings: Settings) -> dict[str, int]:
    wait = settings.max_wait_seconds
    if wait is None and settings.spot:
        wait = 2 * settings.max_run_seconds
    limits = {
        "MaxRuntimeInSeconds": settings.max_run_seconds,
        "MaxWaitTimeInSeconds": wait,
        "MaxPendingTimeInSeconds": settings.max_pending_seconds,
    }
    return {name: value for name, value in limits.items() if value is not None}


def _make_hyperparameters(job: JobSpec, settings: Settings) -> dict[str, str]:
    """Return the job's own as they are typed, and the SDK's as JSON, which the launcher reads both."""
    archive = f"{CODE_FOLDER}/{ARCHIVE}" if settings.isolate_network else locate_archive(job, settings)
    own = {
        "sagemaker_submit_directory": archive,
        "sagemaker_program": job.program,
        "sagemaker_container_log_level": LOG_LEVEL,
        "sagemaker_job_name": job.name,
        "sagemaker_region": settings.region,
    }
    programs = {PROGRAMS_PARAMETER: job.variables[PROGRAMS]} if PROGRAMS in job.variables else {}
    return {**{name: json.dumps(value) for name, value in own.items()}, **programs, **job.parameters}


def _make_environment(job: JobSpec) -> dict[str, str]:
    named = dict.fromkeys(job.secrets, HIDDEN)
    return {name: value for name, value in {**named, **job.variables}.items() if name not in LEFT_OUT}


def _make_channels(job: JobSpec, settings: Settings) -> list[dict[str, Any]]:
    found = find_channels(job)
    # If one channel names its groups, all have to; `places.sagemaker` says it of each itself.
    every = tuple(group.name for group in job.host_groups)
    everyone = every if any(groups for _, groups in found.values()) else ()
    channels = []
    for name, (word, own) in found.items():
        how = settings.channels.get(name, Channel())
        how = how if how.groups else how.model_copy(update={"groups": own or everyone})
        channels.append(_make_channel(name, locate_channel(name, word, settings), how))
    if settings.isolate_network:
        folder = locate_archive(job, settings).rpartition("/")[0]
        groups = every if everyone or any(how.groups for how in settings.channels.values()) else ()
        channels.append(_make_channel(CODE_CHANNEL, folder, Channel(mode="File", groups=groups)))
    return channels


def _make_channel(name: str, address: str, how: Channel) -> dict[str, Any]:
    scheme, _, rest = address.partition("://")
    if scheme in FILE_SYSTEMS:
        system, _, folder = rest.partition("/")
        source: dict[str, Any] = {
            "FileSystemDataSource": {
                "FileSystemId": system,
                "FileSystemType": FILE_SYSTEMS[scheme],
                "FileSystemAccessMode": "ro",
                "DirectoryPath": f"/{folder}",
            }
        }
    else:
        source = {
            "S3DataSource": {
                "S3DataType": "ManifestFile" if how.manifest else "S3Prefix",
                "S3Uri": address,
                "S3DataDistributionType": how.distribution,
                **_drop_empty({"InstanceGroupNames": list(how.groups)}),
            }
        }
    how_read = {"ContentType": how.content_type, "CompressionType": how.compression, "InputMode": how.mode}
    return {"ChannelName": name, "DataSource": source, **_drop_empty(how_read)}


def _make_checkpoints(job: JobSpec, settings: Settings) -> dict[str, str]:
    address = locate_checkpoints(job, settings)
    return {"S3Uri": address, "LocalPath": CHECKPOINTS} if address else {}


def _drop_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
