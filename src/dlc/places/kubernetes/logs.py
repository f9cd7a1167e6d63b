"""The lines of a job's pods, each with the name of its host, as `dlc run` prints them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Thread
from typing import TextIO

from dlc.core.errors import DlcError
from dlc.job.host_log import HostLog
from dlc.places.kubernetes.client import (
    ASK_AGAIN_SECONDS,
    SUSPENDED,
    absence_error,
    await_job,
    count_hosts,
    find_job,
    has_ended,
    list_pods,
    name_host,
    read_state,
)
from dlc.places.kubernetes.document import QUEUE
from dlc.places.kubernetes.kubectl import Object, find_remedy, read_objects, stream_lines
from dlc.places.kubernetes.options import KubernetesOptions

# Before these a pod has no container to read from.
STARTED = ("Running", "Succeeded", "Failed")
# Reasons that no time mends: no such image, no right to it, no node that is large enough, no such Secret.
BLOCKED = (
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff",
    "InvalidImageName", "Unschedulable",
)  # fmt: skip


def print_logs(job_id: str, options: KubernetesOptions, out: TextIO, *, follow: bool) -> None:
    """Print what the pods have said; with `follow` also what they say until the job ends, new starts too."""
    job_set = await_job(options, job_id) if follow else find_job(options, job_id)
    if job_set is None:
        raise absence_error(options, job_id)
    log = HostLog(count_hosts(job_set), out)
    if follow:
        _follow_job(options, log, job_id)
        return
    for pod in list_pods(options, job_id):
        if _has_started(pod):
            _print_pod(options, log, pod)


def _follow_job(options: KubernetesOptions, log: HostLog, job_id: str) -> None:
    """Print what pods say until the job has ended, each in a thread of its own, and why a pod does not start."""
    readers: dict[str, Thread] = {}
    failures: list[Exception] = []
    said = {""}
    ended = False
    while not ended:
        # Asked before the pods are listed: all pods of an ended job are seen.
        found = find_job(options, job_id)
        ended = found is None or has_ended(found)
        pods = list_pods(options, job_id)
        for why in (*map(explain_waiting, pods), explain_absence(options, found, pods)):
            if why not in said:
                said.add(why)
                log.say(why)
        for pod in pods:
            if pod["metadata"]["uid"] not in readers and _has_started(pod):
                readers[pod["metadata"]["uid"]] = _start_reader(options, log, pod, failures)
        if not ended:
            _raise_first(failures)
            time.sleep(ASK_AGAIN_SECONDS)
    for reader in readers.values():
        reader.join()
    _raise_first(failures)


def _start_reader(options: KubernetesOptions, log: HostLog, pod: Object, failures: list[Exception]) -> Thread:
    """Print what a pod says in a thread; a failure, such as that nobody reads it any more, is added to `failures`."""

    def read() -> None:
        try:
            _print_pod(options, log, pod, "--follow")
        except Exception as error:
            failures.append(error)

    reader = Thread(target=read, daemon=True)
    reader.start()
    return reader


def _raise_first(failures: Sequence[Exception]) -> None:
    if failures:
        raise failures[0]


def _has_started(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in STARTED


def explain_waiting(pod: Object) -> str:
    """Return why a pod does not start; empty if it has started, or nothing keeps it from that."""
    status = pod.get("status", {})
    if _has_started(pod):
        return ""
    waiting = [each["state"]["waiting"] for each in status.get("containerStatuses", []) if "waiting" in each["state"]]
    waiting += [each for each in status.get("conditions", []) if each["status"] == "False"]
    found = next((each for each in waiting if each.get("reason") in BLOCKED), None)
    return f"{name_host(pod)} waits: {found['reason']}: {found.get('message', '')}" if found else ""


def explain_absence(options: KubernetesOptions, job_set: Object | None, pods: Sequence[Object]) -> str:
    """Return why a job has fewer pods than hosts; empty if it has all, is gone, or nobody says why."""
    if job_set is None or len(pods) >= count_hosts(job_set):
        return ""
    name = job_set["metadata"]["name"]
    if read_state(job_set).startswith(SUSPENDED):
        queue = job_set["metadata"].get("labels", {}).get(QUEUE, "")
        return f"{name} waits in the queue {queue}: kubectl describe localqueue {queue}" if queue else ""
    try:
        events = read_objects(options, "events", "--field-selector", "reason=FailedCreate")
    except DlcError:
        # Who may create jobs need not have the right to read events.
        return ""
    told = [each["message"] for each in events if each["involvedObject"]["name"].startswith(f"{name}-")]
    return f"{name} has {len(pods)} of {count_hosts(job_set)} pods: {told[-1]}; {find_remedy(told[-1])}" if told else ""


def _print_pod(options: KubernetesOptions, log: HostLog, pod: Object, *words: str) -> None:
    name = pod["metadata"]["name"]
    code = stream_lines(options, "logs", *words, name, on_line=log.taker(name_host(pod)))
    if code:
        log.say(f"{name_host(pod)}: kubectl logs has ended with {code}")
