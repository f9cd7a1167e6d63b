"""A job as `dlc run --explain` shows it: the commands that would start it, and each host's config files. Pure."""

from __future__ import annotations

import json

from dlc.engine.docker_client import as_typed
from dlc.jobs.run.config import config_files
from dlc.jobs.run.containers import containers, labels
from dlc.jobs.run.job import Job


def as_dict(job: Job) -> dict[str, object]:
    """For JSON."""
    return {
        "job": job.id,
        "folder": str(job.folder),
        "network": job.name,
        "containers": [
            {
                "host": container.host,
                "group": container.group.name,
                "name": container.name,
                "command": as_typed(*container.words()),
                "config": config_files(job, container.host),
            }
            for container in containers(job)
        ],
    }


def as_text(job: Job) -> str:
    """For people."""
    create = as_typed("network", "create", *(word for label in labels(job) for word in ("--label", label)), job.name)
    lines = [f"job {job.id}: {len(job.hosts)} hosts, results in {job.folder}", create]
    for container in containers(job):
        lines += ["", f"{container.host} ({container.group.name})", f"  {as_typed(*container.words())}"]
        for name, content in config_files(job, container.host).items():
            lines.append(f"  input/config/{name}: {json.dumps(content)}")
    return "\n".join(lines)
