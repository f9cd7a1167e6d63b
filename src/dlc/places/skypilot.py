"""A job as a task file of SkyPilot, for `sky launch`. Pure. May import job, places.{place,refusals,task_files}."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from dlc.job.job_spec import Group, JobSpec
from dlc.places.place import Document, PlaceOptions, Refusal
from dlc.places.refusals import refuse_share
from dlc.places.task_files import (
    CHECKPOINTS,
    DATA,
    FilesAlone,
    count_gibibytes,
    export_hosts,
    list_code,
    list_lines,
    make_plain,
    name_group,
    refuse_common,
    refuse_folders,
    write_document,
)

NAME = "task.sky.yml"
_client = FilesAlone("sky")
submit_job, list_jobs, print_logs = _client.submit_job, _client.list_jobs, _client.print_logs
wait_for_job, stop_job = _client.wait_for_job, _client.stop_job


class OPTIONS(PlaceOptions):
    """The options below `places: {skypilot: ...}`."""

    infra: str = Field(default="", description="where, such as aws/us-east-1; without it SkyPilot chooses")
    accelerator: str = Field(default="", description="the GPU, such as A100; how many is the job's `gpus`")
    spot: Literal["yes", "no"] = Field(default="no", description="spare capacity")
    disk_gb: str = Field(default="", pattern="[0-9]*", description="size of a host's disk")


def refuse_job(job: JobSpec, options: OPTIONS) -> list[Refusal]:
    """Return what SkyPilot cannot do of the job."""
    return [*refuse_common(job, "SkyPilot"), *refuse_folders(job, "s3://"), *_refuse_options(job, options)]


def _refuse_options(job: JobSpec, options: OPTIONS) -> Iterator[Refusal]:
    counted = [group for group in job.host_groups if group.gpus and not group.instance_type]
    if bool(options.accelerator) != bool(counted):
        keys = ("places", "skypilot", "accelerator")
        expected = "an accelerator with a number of `gpus` and no instance type, and only there"
        yield Refusal(keys, expected, options.accelerator or "none")
    for group in job.host_groups:
        if group.instance_type:
            yield from refuse_share(group, group.instance_type)
    if job.user:
        yield Refusal(("user",), "no other user: SkyPilot enters the container as the image's", job.user)


def render_job(job: JobSpec, options: OPTIONS) -> Document:
    """Return the task file: one task, or a job group with a task for each group."""
    flags = " ".join(f"--secret {name}" for name in job.secrets)
    command = f"DLC_JOB_TOKEN=$(openssl rand -hex 16) sky{' jobs' if job.has_groups else ''} launch {flags} {NAME}"
    if not job.has_groups:
        hosts = export_hosts("SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK")
        return write_document(NAME, command, _make_task(job, job.host_groups[0], job.name, hosts, options))
    header = {
        "name": make_plain(job.name),
        "execution": "parallel",
        "primary_tasks": [name_group(group) for group in job.training_groups],
    }
    tasks = [
        _make_task(job, group, name_group(group), _export_groups(job, group), options) for group in job.host_groups
    ]
    return write_document(NAME, command, header, *tasks)


def _export_groups(job: JobSpec, own: Group) -> str:
    """Return the line of hosts of a job group: SkyPilot calls a host TASK-NUMBER.GROUP on all of them."""
    groups = ";".join(
        f"{group.name}={name_group(group)}-[0-{group.hosts - 1}].{make_plain(job.name)}" for group in job.host_groups
    )
    before = sum(group.hosts for group in job.host_groups[: job.host_groups.index(own)])
    return f'export DLC_GROUPS={shlex.quote(groups)} DLC_RANK="$(({before} + SKYPILOT_NODE_RANK))"'


def _make_task(job: JobSpec, group: Group, name: str, hosts: str, options: OPTIONS) -> dict[str, Any]:
    mounts: dict[str, Any] = {**list_code(job)}
    mounts |= {f"{DATA}/{channel}": {"source": word, "mode": "MOUNT"} for channel, word in group.channels.items()}
    mounts |= {CHECKPOINTS: {"source": job.checkpoints, "mode": "MOUNT"}} if job.checkpoints else {}
    task: dict[str, Any] = {
        "name": name,
        "num_nodes": group.hosts,
        "resources": _describe_resources(job, group, options),
        "envs": dict(job.variables),
        # Without a value: the client asks for it.
        "secrets": dict.fromkeys(job.secrets),
        "file_mounts": mounts,
        "run": "".join(f"{line}\n" for line in list_lines(job, group, hosts)),
    }
    if job.shared_memory:
        task["config"] = {"docker": {"run_options": [f"--shm-size={job.shared_memory}"]}}
    return task


def _describe_resources(job: JobSpec, group: Group, options: OPTIONS) -> dict[str, Any]:
    found: dict[str, Any] = {"image_id": f"docker:{group.image}"}
    found |= {"infra": options.infra} if options.infra else {}
    if group.instance_type:
        found["instance_type"] = group.instance_type.removeprefix("ml.")
    else:
        found |= {"cpus": f"{group.cpus}+"} if group.cpus else {}
        found |= {"memory": f"{count_gibibytes(group.memory)}+"} if group.memory else {}
        found |= {"accelerators": f"{options.accelerator}:{group.gpus}"} if group.gpus else {}
    found |= {"use_spot": True} if options.spot == "yes" else {}
    found |= {"disk_size": int(options.disk_gb)} if options.disk_gb else {}
    return found
