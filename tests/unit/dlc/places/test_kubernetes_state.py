"""What a cluster says of a job that runs: its state, its code, why a pod waits, and its log."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dlc.job.host_log import HostLog
from dlc.places.kubernetes import client, logs
from dlc.places.kubernetes.options import OPTIONS


@pytest.mark.parametrize(
    ("conditions", "restarts", "state"),
    [
        ({}, 0, "Running"),
        ({"Suspended": "True"}, 0, "Suspended"),
        ({"Suspended": "False", "StartupPolicyCompleted": "True"}, 2, "Running, start 3"),
        ({"Suspended": "True", "Completed": "True"}, 1, "Completed, start 2"),
        ({"Completed": "False", "Failed": "True"}, 0, "Failed"),
    ],
)
def test_the_state_of_a_job_has_the_number_of_its_start(conditions: dict[str, str], restarts: int, state: str) -> None:
    stated = [{"type": name, "status": status} for name, status in conditions.items()]
    assert client.read_state({"status": {"conditions": stated, "restarts": restarts}}) == state


def pod_of(code: int | None, finished: str) -> dict[str, Any]:
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code, "finishedAt": finished}}
    return {"status": {"containerStatuses": [{"state": state}]}}


def test_the_first_failure_is_the_jobs_and_a_success_before_it_is_none() -> None:
    ends = [pod_of(0, "10:00:00"), pod_of(69, "10:00:02"), pod_of(7, "10:00:01"), pod_of(None, ""), {}]
    assert client.read_code(ends) == 7
    assert client.read_code(ends[3:]) == client.read_code([]) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"phase": "Pending"}, ""),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
         "a.digits waits: ErrImagePull: "),
        ({"phase": "Pending", "conditions": [{"status": "True", "reason": "Unschedulable"}]}, ""),
        ({"phase": "Pending", "conditions": [{"status": "False", "reason": "Unschedulable", "message": "no node"}]},
         "a.digits waits: Unschedulable: no node"),
        ({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}, ""),
    ],
)  # fmt: skip
def test_why_a_pod_does_not_start_is_said_if_time_does_not_mend_it(status: dict[str, Any], said: str) -> None:
    pod = {"metadata": {"name": "a-x7k2p"}, "spec": {"hostname": "a", "subdomain": "digits"}, "status": status}
    assert logs.explain_waiting(pod) == said


def test_lines_that_nobody_reads_any_more_end_with_the_reader_and_not_with_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pod = {"metadata": {"uid": "1", "name": "digits-0"}, "status": {"phase": "Running"}}
    monkeypatch.setattr(logs, "find_job", lambda *_: {"status": {}})
    monkeypatch.setattr(logs, "list_pods", lambda *_: [pod])
    monkeypatch.setattr(logs, "explain_absence", lambda *_: "")
    monkeypatch.setattr(logs, "time", SimpleNamespace(sleep=lambda _: time.sleep(0.001)))

    def print_pod(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(logs, "_print_pod", print_pod)
    with pytest.raises(BrokenPipeError):
        logs._follow_job(OPTIONS(), HostLog(1, io.StringIO()), "digits")
