"""SageMaker's data parallel library, which AWS alone has: torchrun or mpirun runs in its place."""

from __future__ import annotations

from launch.base.process_spec import Decision
from launch.plan.strategies import Question, Strategy, StrategyChoice, mpi, torchrun


def _substitute(question: Question, choice: StrategyChoice) -> StrategyChoice:
    """Return torchrun for a Python script, MPI for other programs and TensorFlow images."""
    job = question.job
    is_torchrun = job.program.endswith(".py") and "tensorflow" not in question.installed
    row = torchrun.ROW if is_torchrun else mpi.ROW
    decisions = [Decision(f"smdistributed runs on {row.name} with NCCL", "its library is in no public image")]
    if is_torchrun and job.text(mpi.SMDDP_OPTIONS).strip():
        decisions.append(Decision(f"{mpi.SMDDP_OPTIONS} is not used", "there is no mpirun"))
    return StrategyChoice(choice.source, row, tuple(decisions))


ROW = Strategy(
    "smdistributed",
    None,
    asked_by=("sagemaker_distributed_dataparallel_enabled",),
    order=5,
    instead=_substitute,
)
