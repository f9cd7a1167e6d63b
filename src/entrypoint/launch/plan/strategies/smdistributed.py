"""Requests for SageMaker's data parallel library, which only AWS's own images hold: NCCL does its work here."""

from __future__ import annotations

from launch.base.process_spec import Decision
from launch.job.parameters import Job

CUSTOM_OPTIONS = "sagemaker_distributed_dataparallel_custom_mpi_options"


def substitute(job: Job, program: str, installed: frozenset[str]) -> tuple[str, tuple[Decision, ...]]:
    """What runs instead: torchrun for a Python script, MPI for other programs and in a TensorFlow image."""
    strategy = "torchrun" if program.endswith(".py") and "tensorflow" not in installed else "mpi"
    decisions = [Decision(f"smdistributed runs on {strategy} with NCCL", "its library is in no public image")]
    if strategy == "torchrun" and job.text(CUSTOM_OPTIONS).strip():
        decisions.append(Decision(f"{CUSTOM_OPTIONS} is not used", "there is no mpirun"))
    return strategy, tuple(decisions)
