"""A job as a task of dstack, for `dstack apply`. Pure. May import job, places.{place,refusals,task_files}."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from dlc.job.job_spec import Group, JobSpec
from dlc.places.place import Document, PlaceOptions, Refusal
from dlc.places.refusals import refuse_group_images, refuse_more
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

NAME = "task.dstack.yml"
# A volume that dstack knows by its name.
VOLUME = "volume://"
LONGEST_NAME = 41
# All hosts' addresses, a line for each, and the number of this one.
ADDRESSES, RANK = "DSTACK_NODES_IPS", "DSTACK_NODE_RANK"
LINE_BREAK = re.compile(r"[\n\r]")
_client = FilesAlone("dstack")
submit_job, list_jobs, print_logs = _client.submit_job, _client.list_jobs, _client.print_logs
wait_for_job, stop_job = _client.wait_for_job, _client.stop_job


class OPTIONS(PlaceOptions):
    """The options below `places: {dstack: ...}`."""

    accelerator: str = Field(default="", description="the GPU, such as A100; how many is the job's `gpus`")
    fleet: str = Field(default="", description="the fleet whose hosts run it")
    spot: Literal["yes", "no"] = Field(default="no", description="spare capacity")


def refuse_job(job: JobSpec, options: OPTIONS) -> list[Refusal]:
    """Return what dstack cannot do of the job."""
    return [
        *refuse_common(job, "dstack"),
        *refuse_folders(job, VOLUME),
        *_refuse_volumes(job),
        *_refuse_machines(job, options),
        *refuse_group_images(job),
        *_refuse_group_channels(job),
    ]


def _refuse_group_channels(job: JobSpec) -> Iterator[Refusal]:
    """Yield channels of which another one has the name: dstack mounts volumes on the hosts of all groups."""
    known: dict[str, str] = {}
    for keys, word in job.list_channels():
        if word != known.setdefault(keys[-1], word):
            yield Refusal(
                keys, f"one volume of this name for all groups, {known[keys[-1]]}", word, "another name for it"
            )


def _refuse_machines(job: JobSpec, options: OPTIONS) -> Iterator[Refusal]:
    if options.accelerator and not any(group.gpus for group in job.host_groups):
        keys = ("places", "dstack", "accelerator")
        yield Refusal(keys, "an accelerator with a number of `gpus`, and only there", options.accelerator)
    kinds = {group.instance_type for group in job.host_groups}
    if len(kinds) > 1:
        hint = "leave it out, and say cpus, memory and gpus of each group"
        found = ", ".join(f"{group.name}: {group.instance_type or 'none'}" for group in job.host_groups)
        yield Refusal(("groups",), "one instance type for all groups", found, hint)
    for group in job.host_groups:
        yield from refuse_more(group, group.instance_type)


def _refuse_volumes(job: JobSpec) -> Iterator[Refusal]:
    for keys, word in job.list_data():
        if word.startswith(VOLUME) and set(word.removeprefix(VOLUME)) & set("/:"):
            yield Refusal(keys, f"the name of a volume alone, such as {VOLUME}data", word)


def render_job(job: JobSpec, options: OPTIONS) -> Document:
    """Return the task; its groups are dstack's."""
    mounted = {f"{DATA}/{keys[-1]}": word for keys, word in job.list_channels()}
    mounted |= {CHECKPOINTS: job.checkpoints} if job.checkpoints else {}
    # dstack takes no variable of several lines.
    broken = {key: value for key, value in job.variables.items() if LINE_BREAK.search(value)}
    lines = [f"export {key}={shlex.quote(value)}" for key, value in broken.items()]
    hosts = _export_groups(job) if job.has_groups else export_hosts(ADDRESSES, RANK)
    parts = [
        {
            "nodes": group.hosts,
            "commands": [*lines, *list_lines(job, group, hosts)],
            "resources": _describe_resources(job, group, options),
        }
        for group in job.host_groups
    ]
    groups = [{"name": name_group(group), **part} for group, part in zip(job.host_groups, parts, strict=True)]
    kind = job.host_groups[0].instance_type
    task: dict[str, Any] = {
        "type": "task",
        "name": _make_name(job.name),
        "image": job.image,
        **({"user": job.user} if job.user else {}),
        # A name without a value is the shell's that sends the task.
        "env": [*(f"{key}={value}" for key, value in job.variables.items() if key not in broken), *job.secrets],
        "files": [f"{source}:{target}" for target, source in list_code(job).items()],
        "volumes": [f"{word.removeprefix(VOLUME)}:{target}" for target, word in mounted.items()],
        "stop_duration": f"{job.grace}s",
        "spot_policy": "spot" if options.spot == "yes" else "on-demand",
        **({"groups": groups} if job.has_groups else parts[0]),
    }
    task |= {"fleets": [options.fleet]} if options.fleet else {}
    task |= {"instance_types": [kind.removeprefix("ml.")]} if kind else {}
    return write_document(NAME, f"DLC_JOB_TOKEN=$(openssl rand -hex 16) dstack apply -f {NAME}", task)


def _export_groups(job: JobSpec) -> str:
    """Return the line of hosts of groups: dstack numbers the hosts of all groups, in their order."""
    words, last = [], 0
    for group in job.host_groups:
        first, last = last + 1, last + group.hosts
        words.append(f"{group.name}=$(printf '%s\\n' \"${ADDRESSES}\" | sed -n '{first},{last}p' | paste -sd, -)")
    return f'export DLC_GROUPS="{";".join(words)}" DLC_RANK="${RANK}"'


def _make_name(name: str) -> str:
    """Return the name as dstack takes it: small letters, digits and -, from a letter on, 41 at most."""
    plain = make_plain(name)
    return (plain if plain[:1].isalpha() else f"dlc-{plain}")[:LONGEST_NAME].rstrip("-")


def _describe_resources(job: JobSpec, group: Group, options: OPTIONS) -> dict[str, Any]:
    found: dict[str, Any] = {}
    found |= {"cpu": f"{math.ceil(float(group.cpus))}.."} if group.cpus else {}
    found |= {"memory": f"{count_gibibytes(group.memory)}GB.."} if group.memory else {}
    if group.gpus:
        found["gpu"] = f"{options.accelerator}:{group.gpus}" if options.accelerator else int(group.gpus)
    found |= {"shm_size": f"{count_gibibytes(job.shared_memory)}GB"} if job.shared_memory else {}
    return found
