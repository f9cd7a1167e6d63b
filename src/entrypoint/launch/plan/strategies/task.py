"""One rank in this launcher's task: the platform started a launcher for each, as Slurm does with one task per GPU."""

from __future__ import annotations

from launch.base.errors import CONFIG, LaunchError
from launch.base.process_spec import Decision, Launch
from launch.plan.context import Context
from launch.plan.network import thread_variables


def plan(context: Context) -> Launch:
    """The entry point with the variables that torchrun would give this rank.

    Raises LaunchError where the platform starts one launcher for each host.
    """
    task = context.cluster.task
    if task is None:
        raise LaunchError(
            CONFIG, "no task", where="DLC_STRATEGY", expected="several tasks on a node of Slurm", found="one launcher"
        )
    # Where Slurm shows each task its own GPU alone, that is the first.
    confined = context.devices.num_gpus == 1 and task.local_size > 1
    variables = {
        "RANK": str(task.rank),
        "WORLD_SIZE": str(task.world_size),
        "LOCAL_RANK": "0" if confined else str(task.local_rank),
        "LOCAL_WORLD_SIZE": str(task.local_size),
        "GROUP_RANK": str(context.cluster.hosts.index(context.cluster.current_host)),
    }
    defaults = thread_variables(context.devices, task.local_size)
    command = context.entry.command(context.python, context.job.arguments)
    why = "Slurm ends the others when one fails with srun --kill-on-bad-exit"
    launch = Launch("task", (context.process(command, "worker", task.rank, variables, defaults),))
    return launch._replace(decisions=(Decision(f"rank {task.rank} of {task.world_size}", why),))
