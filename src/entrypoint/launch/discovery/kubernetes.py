"""The cluster of a Kubernetes Indexed Job, or of a JobSet's replicated job, behind a headless service.

Kubernetes tells a pod its index and its host name, but not how many pods there are: DLC_NUM_HOSTS says so. The pods of
an Indexed Job are called <job>-<index>, those of a JobSet <jobset>-<replicated job>-<job index>-<index>.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import Paths
from launch.discovery.cluster import Cluster, make_cluster

# Kubernetes' own limit for an Indexed Job
MOST_HOSTS = 100_000


def discover(environ: Mapping[str, str], _paths: Paths) -> Cluster | None:
    """Return the pods of the job; None outside of one, and with DLC_NUM_HOSTS=1: each pod is a job then.

    Raises LaunchError if nothing says how many pods there are, a number is invalid, or the host's name does not end
    with the index.
    """
    if "JOB_COMPLETION_INDEX" not in environ:
        return None
    if "DLC_NUM_HOSTS" not in environ:
        raise LaunchError(
            CONFIG,
            "a pod of an Indexed Job, but nobody says how many pods train together: each would train alone",
            where="JOB_COMPLETION_INDEX",
            expected="DLC_NUM_HOSTS",
            found="none",
            remedy="set it to the Job's completions, or to 1 where each pod is a job of its own",
        )
    if environ["DLC_NUM_HOSTS"] == "1" and environ.get("REPLICATED_JOB_REPLICAS", "1") == "1":
        return None
    pods = _read_number(environ, "DLC_NUM_HOSTS", 1, MOST_HOSTS)
    index = _read_number(environ, "JOB_COMPLETION_INDEX", 0, pods - 1)
    host = environ.get("HOSTNAME", "").partition(".")[0]
    if not host.endswith(f"-{index}"):
        raise LaunchError(
            CONFIG,
            "the pod's host name",
            where="HOSTNAME",
            expected=f"a name that ends with -{index}",
            found=shown(host),
        )
    hosts, current = _host_names(environ, host[: -len(f"-{index}")], pods, index)
    service = environ.get("DLC_SERVICE") or environ.get("JOBSET_NAME") or ""
    domain = f".{service}" if service else ""
    return make_cluster(
        "Kubernetes", [name + domain for name in hosts], current + domain, "JOB_COMPLETION_INDEX", environ
    )


def _host_names(environ: Mapping[str, str], job: str, pods: int, index: int) -> tuple[list[str], str]:
    """Return every pod's host name, and this one's. Of a JobSet the replicas of the job are one cluster."""
    if "REPLICATED_JOB_REPLICAS" not in environ:
        return [f"{job}-{pod}" for pod in range(pods)], f"{job}-{index}"
    replicas = _read_number(environ, "REPLICATED_JOB_REPLICAS", 1, MOST_HOSTS // pods)
    replica = _read_number(environ, "JOB_INDEX", 0, replicas - 1)
    if not job.endswith(f"-{replica}"):
        raise LaunchError(
            CONFIG, "the job's name", where="HOSTNAME", expected=f"a name that ends with -{replica}", found=shown(job)
        )
    family = job[: -len(f"-{replica}")]
    names = [f"{family}-{number}-{pod}" for number in range(replicas) for pod in range(pods)]
    return names, f"{job}-{index}"


def _read_number(environ: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = environ.get(name, "")
    if not re.fullmatch(r"[0-9]{1,7}", text) or not least <= int(text) <= most:
        raise LaunchError(CONFIG, name, where="environment", expected=f"a number from {least} to {most}",
                          found=shown(text))  # fmt: skip
    return int(text)
