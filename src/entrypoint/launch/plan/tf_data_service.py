"""tf.data.service: on the hosts of the group whose program is `tf.data`, and by switch beside the training.

The program itself is dlc_runtime's: it starts the dispatcher on the group's first host, and a worker on each.
"""

from __future__ import annotations

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.job import entry_point, instance_groups
from launch.job.hyperparameters import Job
from launch.plan.context import Context

ROLE = "tf.data"
WHERE = "DLC_TF_DATA_WORKERS"
GROUP = "DLC_TF_DATA_GROUP"


def variables(job: Job) -> dict[str, str]:
    """Return what tells a script who serves."""
    group = instance_groups.tf_data_group(job.group_programs)
    return {GROUP: group} if group else {}


def plan(context: Context) -> Launch:
    """Plan the servers of a data host; they end with the group, and an earlier end is a failure of the job."""
    return Launch("tf_data", (context.process(_command(context), ROLE, 0, essential=False),))


def add_worker(launch: Launch, context: Context) -> Launch:
    """Add a worker beside what trains here if the setting asks for one. Raises LaunchError for a wrong one."""
    asked = context.environ.get(WHERE) or "data"
    if asked not in ("data", "all"):
        raise LaunchError(CONFIG, "where workers run", where=WHERE, expected="data or all", found=shown(asked))
    if asked == "data" or launch.strategy == "tf_data":
        return launch
    if not instance_groups.tf_data_group(context.job.group_programs):
        raise LaunchError(
            CONFIG, "no data hosts for workers to join", where=WHERE, expected="a group whose program is tf.data",
            found="none", remedy=f'set {instance_groups.SWITCH}={{"NAME": "tf.data"}}',
        )  # fmt: skip
    worker = context.process(_command(context), ROLE, 0, essential=False)
    why = Decision("a worker of tf.data.service beside the training", WHERE)
    return launch._replace(processes=(*launch.processes, worker), decisions=(*launch.decisions, why))


def _command(context: Context) -> tuple[str, ...]:
    entry = entry_point.resolve_entry_point(instance_groups.TF_DATA_PROGRAM, context.paths.code)
    return entry.command(context.python, ())
