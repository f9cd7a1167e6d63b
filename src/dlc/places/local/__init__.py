"""This machine: a container for each host. May import core, engine, job, places.place."""

from __future__ import annotations

from dlc.places.local.place import OPTIONS, refuse_job, render_job, submit_job
from dlc.places.local.running import list_jobs, print_logs, stop_job, wait_for_job

__all__ = ["OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job"]
