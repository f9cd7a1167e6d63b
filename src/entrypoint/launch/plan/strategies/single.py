"""One plain process on this host; and what runs in place of SageMaker's data parallel library, which AWS alone has."""

from __future__ import annotations

from launch.base.process_spec import Decision, Launch
from launch.discovery.cluster import Cluster
from launch.job.hyperparameters import GROUPS, Job
from launch.plan.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(context: Context) -> Launch:
    """Plan the entry point as it is, whatever its type."""
    command = context.entry.command(context.python, context.job.arguments)
    return Launch("single", (context.process(command, "worker", 0),))


def find_warnings(cluster: Cluster, job: Job, environ: Mapping[str, str]) -> list[Decision]:
    """Warn if several hosts run one script, without a strategy, and nothing connects them.

    TF_CONFIG connects them. Groups that are named although nothing is distributed hint at a request left out.
    """
    if len(cluster.hosts) < 2 or environ.get("DLC_STRATEGY") or environ.get("TF_CONFIG"):
        return []
    stated = job.parameters.get(GROUPS)
    if stated and len(cluster.hosts_of(stated)) == 1:
        # The other groups serve the one host that trains
        return []
    if stated:
        return [Decision("warning: every host trains alone", f"{GROUPS} is given, but no distribution is asked for")]
    if cluster.is_heterogeneous or job.group_programs:
        return []
    remedy = "`dlc run --distributed torchrun|horovod|mpi|tensorflow`, or a hyperparameter of docs/using.md"
    why = f"no distribution was asked for, so each trains a model of its own unless the script connects them; {remedy}"
    return [Decision(f"warning: nothing connects the {len(cluster.hosts)} hosts", why)]


SMDDP_OPTIONS = "sagemaker_distributed_dataparallel_custom_mpi_options"


def substitute_smdistributed(job: Job, program: str, installed: frozenset[str]) -> tuple[str, tuple[Decision, ...]]:
    """Return what runs instead: torchrun for a Python script, MPI for other programs and TensorFlow images."""
    strategy = "torchrun" if program.endswith(".py") and "tensorflow" not in installed else "mpi"
    decisions = [Decision(f"smdistributed runs on {strategy} with NCCL", "its library is in no public image")]
    if strategy == "torchrun" and job.text(SMDDP_OPTIONS).strip():
        decisions.append(Decision(f"{SMDDP_OPTIONS} is not used", "there is no mpirun"))
    return strategy, tuple(decisions)
