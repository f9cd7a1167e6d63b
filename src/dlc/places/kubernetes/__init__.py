"""Kubernetes: a JobSet or a TrainJob, by kubectl. May import core, buildspec, job, places.{place,refusals}."""

from __future__ import annotations

from dlc.places.kubernetes.client import list_jobs, stop_job, submit_job, wait_for_job
from dlc.places.kubernetes.document import render_job
from dlc.places.kubernetes.logs import print_logs
from dlc.places.kubernetes.options import OPTIONS
from dlc.places.kubernetes.refusals import refuse_job

__all__ = [
    "OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job",
]  # fmt: skip
