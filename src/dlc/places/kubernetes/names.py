"""What the parts of a job are called in a cluster. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dlc.job.job_spec import ONLY_GROUP, Group, JobSpec
from dlc.places.place import Refusal

# Of a replicated job without a group's name, and of every container: Kubeflow Trainer wants this one.
NODE = "node"
# A pod's host name is a DNS label, and the pod itself has six characters more.
LONGEST_POD = 63
POD_SUFFIX = "-abcde"
# Files of /opt/ml/input/config, which are keys of the ConfigMap.
PARAMETERS_FILE, CHANNELS_FILE = "hyperparameters.json", "inputdataconfig.json"
PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"


def name_object(job: JobSpec) -> str:
    """Return the name of all objects of the job, which has to begin with a letter."""
    return f"dlc-{job.name}"


def name_group(group: str) -> str:
    """Return the replicated job of a group, as the launcher finds it (launch/discovery/dlc_hosts.py)."""
    return NODE if group == ONLY_GROUP else re.sub("[_.]", "-", group.lower())


def name_channels_file(job: JobSpec, group: Group) -> str:
    """Return the key of the channels that a group has: of all groups that have the job's alone it is one."""
    return CHANNELS_FILE if group.channels == job.channels else f"{name_group(group.name)}.{CHANNELS_FILE}"


def name_host(job: JobSpec, group: Group, index: int) -> str:
    """Return the host name of a pod."""
    return f"{name_object(job)}-{name_group(group.name)}-0-{index}"


def refuse_names(job: JobSpec) -> Iterator[Refusal]:
    """Yield names that Kubernetes does not take."""
    if not re.fullmatch(PART, job.name):
        yield Refusal(("name",), "small letters, digits and -", job.name, "--name")
    names = Counter(name_group(group.name) for group in job.host_groups)
    for group in job.host_groups:
        keys = ("groups", group.name)
        if not re.fullmatch(PART, name_group(group.name)):
            yield Refusal(keys, "a name that begins and ends with a letter or a digit", group.name)
        elif names[name_group(group.name)] > 1:
            yield Refusal(keys, "a name of its own in small letters and - for _", f"{name_group(group.name)} twice")
    longest = max((name_host(job, group, group.hosts - 1) + POD_SUFFIX for group in job.host_groups), key=len)
    if len(longest) > LONGEST_POD:
        over = len(longest) - LONGEST_POD
        expected = f"pods' names of at most {LONGEST_POD} characters"
        yield Refusal(("name",), expected, f"{longest} with {len(longest)}", f"a name with {over} characters less")
