"""SageMaker: CreateTrainingJob. May import core, checked_yaml, engine, job, places.{place,refusals}."""

from __future__ import annotations

from dlc.places.sagemaker.follow import list_jobs, print_logs, stop_job, wait_for_job
from dlc.places.sagemaker.refusals import refuse_job
from dlc.places.sagemaker.settings import Settings
from dlc.places.sagemaker.submit import render_job, submit_job

OPTIONS = Settings

__all__ = ["OPTIONS", "list_jobs", "print_logs", "refuse_job", "render_job", "stop_job", "submit_job", "wait_for_job"]
