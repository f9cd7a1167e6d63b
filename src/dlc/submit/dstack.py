"""A job as a task of dstack, for `dstack apply`. Pure. May import submit.places, submit.task_files."""

from __future__ import annotations

import re
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

NAME = "task.dstack.yml"
# A volume that dstack knows by its name.
VOLUME = "volume://"
LONGEST_NAME = 41
_client = FilesAlone("dstack")
submit_job, list_jobs, print_logs = _client.submit_job, _client.list_jobs, _client.print_logs
wait_for_job, stop_job = _client.wait_for_job, _client.stop_job


class OPTIONS(PlaceOptions):
    """The options below `places: {dstack: ...}`."""

    accelerator: str = Field(default="", description="the GPU, such as A100; how many is the job's `gpus`")
    fleet: str = Field(default="", description="the fleet whose hosts run it")
    spot: Literal["yes", "no"] = Field(default="no", description="spare capacity")


def refuse_job(job: SubmittedJob, options: OPTIONS) -> list[Refusal]:
    """Return what dstack cannot do of the job."""
    return [*refuse_common(job), *refuse_folders(job, VOLUME), *_refuse_volumes(job)]


def _refuse_volumes(job: SubmittedJob) -> Iterator[Refusal]:
    places = {("channels", name): word for name, word in job.channels.items()} | {("checkpoints",): job.checkpoints}
    for keys, word in places.items():
        if word.startswith(VOLUME) and set(word.removeprefix(VOLUME)) & set("/:"):
            yield Refusal(keys, f"the name of a volume alone, such as {VOLUME}data", word)


def render_job(job: SubmittedJob, options: OPTIONS) -> Document:
    """Return the task."""
    mounted = {f"{DATA}/{name}": word for name, word in job.channels.items()}
    mounted |= {CHECKPOINTS: job.checkpoints} if job.checkpoints else {}
    group = first_group(job)
    task: dict[str, Any] = {
        "type": "task",
        "name": _make_name(job.name),
        "nodes": job.hosts,
        "image": job.image,
        **({"user": job.user} if job.user else {}),
        # A name without a value is the shell's that sends the task.
        "env": [*(f"{key}={value}" for key, value in job.environment.items()), *job.secrets],
        "files": [f"{source}:{target}" for target, source in list_code(job).items()],
        "volumes": [f"{word.removeprefix(VOLUME)}:{target}" for target, word in mounted.items()],
        "commands": list_lines(job, "DSTACK_NODES_IPS", "DSTACK_NODE_RANK"),
        "stop_duration": f"{job.grace}s",
        "spot_policy": "spot" if options.spot == "yes" else "on-demand",
        "resources": _describe_resources(job, options),
    }
    task |= {"fleets": [options.fleet]} if options.fleet else {}
    task |= {"instance_types": [group.instance_type.removeprefix("ml.")]} if group.instance_type else {}
    return write_document(NAME, f"DLC_JOB_TOKEN=$(openssl rand -hex 16) dstack apply -f {NAME}", task)


def _make_name(name: str) -> str:
    """Return the name as dstack takes it: small letters, digits and -, from a letter on, 41 at most."""
    plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"dlc-{plain}")[:LONGEST_NAME].rstrip("-")


def _describe_resources(job: SubmittedJob, options: OPTIONS) -> dict[str, Any]:
    group = first_group(job)
    found: dict[str, Any] = {}
    found |= {"cpu": f"{float(group.cpus):.0f}.."} if group.cpus else {}
    found |= {"memory": f"{count_gibibytes(group.memory)}GB.."} if group.memory else {}
    if group.gpus:
        found["gpu"] = f"{options.accelerator}:{group.gpus}" if options.accelerator else int(group.gpus)
    found |= {"shm_size": f"{count_gibibytes(job.shared_memory)}GB"} if job.shared_memory else {}
    return found
