"""TensorFlow's strategies of several workers: MultiWorkerMirroredStrategy, and parameter servers."""

from __future__ import annotations

import json
from typing import Any

from launch.base import process_spec, settings
from launch.base.process_spec import Decision, Launch
from launch.plan.context import Context
from launch.plan.frameworks import chief_name
from launch.plan.network import join_host_port


def plan_multi_worker(context: Context) -> Launch:
    """Plan one process with TF_CONFIG, also on a single host."""
    port = settings.port_of(context.environ, settings.TF_MULTI_WORKER_PORT)
    config = {
        "cluster": {"worker": [join_host_port(context.address(host), port) for host in context.hosts]},
        "environment": "cloud",
        "task": {"index": context.host_rank, "type": "worker"},
    }
    command = context.entry.command(context.python, context.job.arguments)
    defaults = {"TF_CONFIG": json.dumps(config)}
    return Launch("tf_multi_worker", (context.process(command, "worker", context.host_rank, defaults=defaults),))


def plan_parameter_servers(context: Context) -> Launch:
    """Plan the user's process with TF_CONFIG, and a server process on the CPU.

    A TF_CONFIG of the user's own says where its servers are: then there is none of ours.
    Raises LaunchError for a DLC_TF_CHIEF that is no name of a chief.
    """
    command = context.entry.command(context.python, context.job.arguments)
    if "TF_CONFIG" in context.environ:
        alone = context.process(command, "worker", context.host_rank)
        return Launch("tf_parameter_server", (alone,), (Decision("no parameter server of ours", "TF_CONFIG is set"),))
    chief, why = chief_name(context.environ, context.installed)
    cluster = _cluster_spec(context, chief)
    rank = context.host_rank
    task = {"index": 0, "type": chief} if rank == 0 else {"index": rank - 1, "type": "worker"}
    worker = context.process(
        command,
        "worker",
        rank,
        {"TF_CONFIG": json.dumps({"cluster": cluster, "environment": "cloud", "task": task})},
    )
    server = context.process(
        (context.python, process_spec.program_path("tf_parameter_server")),
        "ps",
        rank,
        {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"index": rank, "type": "ps"}}),
            # The parameters live in host memory; the GPUs are the worker's
            "CUDA_VISIBLE_DEVICES": "-1",
        },
        # It serves every host's worker, so it ends when the group does
        essential=False,
    )
    decisions = (Decision(f"the first task is called {chief}", why),)
    return Launch("tf_parameter_server", (server, worker), decisions)


def _cluster_spec(context: Context, chief: str) -> dict[str, Any]:
    first, *others = [context.address(host) for host in context.hosts]
    worker_port = settings.port_of(context.environ, settings.TF_WORKER_PORT)
    server_port = settings.port_of(context.environ, settings.TF_SERVER_PORT)
    return {
        chief: [join_host_port(first, worker_port)],
        "worker": [join_host_port(host, worker_port) for host in others],
        "ps": [join_host_port(host, server_port) for host in (first, *others)],
    }
