"""Slurm: an sbatch file, a component for each group. May import core, buildspec, jobs.run, jobs.job_file, submit.*."""

from __future__ import annotations

from dlc.submit.slurm.client import list_jobs, print_logs, stop_job, submit_job, wait_for_job
from dlc.submit.slurm.options import OPTIONS, refuse_job
from dlc.submit.slurm.script import render_job

__all__ = [
    "OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job",
]  # fmt: skip
