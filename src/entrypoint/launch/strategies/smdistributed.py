"""Requests for SageMaker's data parallel library, which only AWS's own images hold: NCCL does its work here."""

from __future__ import annotations

from launch.context import Context
from launch.process_spec import Decision, Launch
from launch.strategies import mpi, torchrun

CUSTOM_OPTIONS = "sagemaker_distributed_dataparallel_custom_mpi_options"


def plan(context: Context) -> Launch:
    """torchrun for a Python script in an image that has PyTorch, else MPI."""
    on_torchrun = context.entry.kind == "script" and "tensorflow" not in context.installed
    launch = torchrun.plan(context) if on_torchrun else mpi.plan(context, CUSTOM_OPTIONS)
    decisions = [Decision(f"smdistributed runs on {launch.strategy} with NCCL", "its library is in no public image")]
    if on_torchrun and context.job.text(CUSTOM_OPTIONS).strip():
        decisions.append(Decision(f"{CUSTOM_OPTIONS} is not used", "there is no mpirun"))
    return launch._replace(decisions=(*launch.decisions, *decisions))
