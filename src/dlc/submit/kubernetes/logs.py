"""The lines of a job's pods, each with the name of its host, as `dlc run` prints them."""

from __future__ import annotations

import time
from threading import Thread
from typing import TextIO

from dlc.jobs.run.lifecycle import HostLog
from dlc.submit.kubernetes.client import (
    ASK_AGAIN_SECONDS,
    absence_error,
    await_job,
    count_hosts,
    find_job,
    has_ended,
    list_pods,
    name_host,
)
from dlc.submit.kubernetes.kubectl import Object, stream_lines
from dlc.submit.kubernetes.options import KubernetesOptions

# Before these a pod has no container to read from.
STARTED = ("Running", "Succeeded", "Failed")


def print_logs(job_id: str, options: KubernetesOptions, out: TextIO, *, follow: bool) -> None:
    """Print what the pods have said; with `follow` also what they say until the job ends, new starts too."""
    job_set = await_job(options, job_id) if follow else find_job(options, job_id)
    if job_set is None:
        raise absence_error(options, job_id)
    log = HostLog(count_hosts(job_set), out)
    if not follow:
        for pod in list_pods(options, job_id):
            if _has_started(pod):
                _print_pod(options, log, pod)
        return
    readers: dict[str, Thread] = {}
    ended = False
    while not ended:
        # Asked before the pods are listed: all pods of an ended job are seen.
        found = find_job(options, job_id)
        ended = found is None or has_ended(found)
        for pod in list_pods(options, job_id):
            if pod["metadata"]["uid"] not in readers and _has_started(pod):
                reader = Thread(target=_print_pod, args=(options, log, pod, "--follow"), daemon=True)
                readers[pod["metadata"]["uid"]] = reader
                reader.start()
        if not ended:
            time.sleep(ASK_AGAIN_SECONDS)
    for reader in readers.values():
        reader.join()


def _has_started(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in STARTED


def _print_pod(options: KubernetesOptions, log: HostLog, pod: Object, *words: str) -> None:
    name = pod["metadata"]["name"]
    code = stream_lines(options, "logs", *words, name, on_line=log.taker(name_host(pod)))
    if code:
        log.say(f"{name_host(pod)}: kubectl logs has ended with {code}")
