"""Kubernetes: a JobSet or a TrainJob, applied by kubectl. May import core, buildspec, jobs.run, submit.places."""

from __future__ import annotations

from dlc.submit.kubernetes.client import list_jobs, stop_job, submit_job, wait_for_job
from dlc.submit.kubernetes.document import render_job
from dlc.submit.kubernetes.logs import print_logs
from dlc.submit.kubernetes.options import OPTIONS
from dlc.submit.kubernetes.refusals import refuse_job

__all__ = [
    "OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job",
]  # fmt: skip
