"""A job as a task file of SkyPilot, for `sky launch`. Pure. May import submit.places, submit.task_files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from dlc.submit.places import Document, PlaceOptions, Refusal, SubmittedJob
from dlc.submit.task_files import (
    CHECKPOINTS,
    DATA,
    FilesAlone,
    count_gibibytes,
    first_group,
    list_code,
    list_lines,
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


def refuse_job(job: SubmittedJob, options: OPTIONS) -> list[Refusal]:
    """Return what SkyPilot cannot do of the job."""
    return [*refuse_common(job), *refuse_folders(job, "s3://"), *_refuse_options(job, options)]


def _refuse_options(job: SubmittedJob, options: OPTIONS) -> Iterator[Refusal]:
    gpus, machine = first_group(job).gpus, first_group(job).instance_type
    if bool(options.accelerator) != bool(gpus) and not machine:
        keys = ("places", "skypilot", "accelerator")
        yield Refusal(keys, "an accelerator with a number of `gpus`, and only there", options.accelerator or "none")
    if job.user:
        yield Refusal(("user",), "no other user: SkyPilot enters the container as the image's", job.user)


def render_job(job: SubmittedJob, options: OPTIONS) -> Document:
    """Return the task file."""
    mounts: dict[str, Any] = {**list_code(job)}
    mounts |= {f"{DATA}/{name}": {"source": word, "mode": "MOUNT"} for name, word in job.channels.items()}
    mounts |= {CHECKPOINTS: {"source": job.checkpoints, "mode": "MOUNT"}} if job.checkpoints else {}
    lines = list_lines(job, "SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK")
    task: dict[str, Any] = {
        "name": job.name,
        "num_nodes": job.hosts,
        "resources": _describe_resources(job, options),
        "envs": dict(job.environment),
        # Without a value: the client asks for it.
        "secrets": dict.fromkeys(job.secrets),
        "file_mounts": mounts,
        "run": "".join(f"{line}\n" for line in lines),
    }
    if job.shared_memory:
        task["config"] = {"docker": {"run_options": [f"--shm-size={job.shared_memory}"]}}
    flags = " ".join(f"--secret {name}" for name in job.secrets)
    return write_document(NAME, f"DLC_JOB_TOKEN=$(openssl rand -hex 16) sky launch {flags} {NAME}", task)


def _describe_resources(job: SubmittedJob, options: OPTIONS) -> dict[str, Any]:
    group = first_group(job)
    found: dict[str, Any] = {"image_id": f"docker:{job.image}"}
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
