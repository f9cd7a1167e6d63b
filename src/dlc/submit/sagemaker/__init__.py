"""SageMaker: CreateTrainingJob. May import core, engine, buildspec, jobs.run, jobs.job_file, submit.places."""

from __future__ import annotations

from dlc.submit.sagemaker.follow import list_jobs, print_logs, stop_job, wait_for_job
from dlc.submit.sagemaker.refusals import refuse_job
from dlc.submit.sagemaker.settings import Settings
from dlc.submit.sagemaker.submit import render_job, submit_job

OPTIONS = Settings

__all__ = ["OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job"]
