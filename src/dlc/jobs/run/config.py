"""The files of /opt/ml/input/config on each host, in the shape of a real job's. Pure."""

from __future__ import annotations

import json

from dlc.jobs.run.job import Job

INTERFACE = "eth0"  # what Docker calls a container's first network interface
CHANNEL = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}


def config_files(job: Job, host: str) -> dict[str, dict[str, object]]:
    """File name -> JSON object."""
    program = {"sagemaker_program": json.dumps(job.program)} if job.program else {}
    return {
        "resourceconfig.json": resource_config(job, host),
        "hyperparameters.json": {**program, **job.hyperparameters},
        "inputdataconfig.json": {name: dict(CHANNEL) for name in job.channels},
    }


def resource_config(job: Job, host: str) -> dict[str, object]:
    """Who this host is, and who the others are."""
    group = job.group_of(host)
    return {
        "current_host": host,
        "current_instance_type": group.instance_type,
        "current_group_name": group.name,
        "hosts": list(job.hosts),
        "instance_groups": [
            {"instance_group_name": each.name, "instance_type": each.instance_type, "hosts": list(each.hosts)}
            for each in job.groups
        ],
        "network_interface_name": INTERFACE,
    }
