"""Slurm: an sbatch file, a component a group. May import core, checked_yaml, job, places.{place,records,refusals}."""

from __future__ import annotations

from dlc.places.slurm.client import list_jobs, print_logs, stop_job, submit_job, wait_for_job
from dlc.places.slurm.options import OPTIONS, refuse_job
from dlc.places.slurm.script import render_job

__all__ = [
    "OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job",
]  # fmt: skip
