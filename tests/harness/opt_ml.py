"""A job as tests have it, in the form that `dlc run` has it, and one host's /opt/ml of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlc.job.job_spec import ONLY_GROUP
from dlc.places.local.job import Group, Job, name_hosts
from dlc.places.local.job_folder import write_host_folder

INSTANCE_TYPE = "ml.c5.xlarge"


def job_of(
    folder: Path,
    script: Path,
    *,
    program: str = "",
    hosts: int = 1,
    groups: Mapping[str, int] | None = None,
    programs: Mapping[str, Path] | None = None,
    cpus: Mapping[str, str] | None = None,
    hyperparameters: Mapping[str, object] | None = None,
    channels: Mapping[str, Path] | None = None,
    **others: Any,
) -> Job:
    """`script` is the entry point, a file or a folder (then `program` names the entry point in it).

    `groups` maps instance group names to numbers of hosts; without it `hosts` hosts form one group. `programs` and
    `cpus` are of groups that have a script or a limit of their own. Hyperparameters are encoded as the SageMaker SDK
    2.x does it: every value as JSON text. `others` are fields of the job.
    """
    sizes, programs, cpus = groups or {ONLY_GROUP: hosts}, programs or {}, cpus or {}
    named = zip(sizes, name_hosts(list(sizes.values())), strict=True)
    return Job(
        folder=folder,
        groups=tuple(
            Group(
                name,
                members,
                INSTANCE_TYPE,
                program=programs[name].name if name in programs else "",
                cpus=cpus.get(name, ""),
            )
            for name, members in named
        ),
        code=(script, *programs.values()),
        program=program or script.name,
        hyperparameters={name: json.dumps(value) for name, value in (hyperparameters or {}).items()},
        channels=channels or {},
        **{"id": "test", "image": "", **others},
    )


def lay_out(folder: Path, script: Path, hyperparameters: Mapping[str, object]) -> Path:
    """Make the /opt/ml of a job's only host and return it."""
    job = job_of(folder, script, hyperparameters=hyperparameters)
    return write_host_folder(job, job.hosts[0])
