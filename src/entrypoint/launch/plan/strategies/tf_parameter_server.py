"""TensorFlow's parameter servers: a master, workers, and beside each of them a server that ends with the job."""

from __future__ import annotations

import json
from typing import Any

from launch.base import ports, process_spec
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.plan.context import Context
from launch.plan.network import address

CHIEF_NAMES = ("master", "chief")  # the platform's (TensorFlow 1) and TensorFlow 2's


def plan(context: Context) -> Launch:
    """The user's process with TF_CONFIG, and a server process on the CPU.

    A TF_CONFIG of the user's own says where its servers are: then there is none of ours.
    Raises LaunchError for a DLC_TF_CHIEF that is neither of CHIEF_NAMES.
    """
    command = context.entry.command(context.python, context.job.arguments)
    if "TF_CONFIG" in context.environ:
        alone = context.process(command, "worker", context.host_rank)
        return Launch("tf_parameter_server", (alone,), (Decision("no parameter server of ours", "TF_CONFIG is set"),))
    chief = _chief_name(context)
    cluster = _cluster(context, chief)
    rank = context.host_rank
    task = {"index": 0, "type": chief} if rank == 0 else {"index": rank - 1, "type": "worker"}
    worker = context.process(
        command,
        "worker",
        rank,
        {"TF_CONFIG": json.dumps({"cluster": cluster, "environment": "cloud", "task": task})},
    )
    server = context.process(
        (context.python, process_spec.path("tf_server")),
        "ps",
        rank,
        {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"index": rank, "type": "ps"}}),
            "CUDA_VISIBLE_DEVICES": "-1",  # the parameters live in host memory; the GPUs are the worker's
        },
        essential=False,  # it serves every host's worker, so it ends when the group does
    )
    why = "DLC_TF_CHIEF" if context.environ.get("DLC_TF_CHIEF") else "the platform's name"
    decisions = (Decision(f"the first task is called {chief}", why),)
    return Launch("tf_parameter_server", (server, worker), decisions)


def _cluster(context: Context, chief: str) -> dict[str, Any]:
    first, *others = [context.address(host) for host in context.hosts]
    worker_port = ports.of(context.environ, ports.TF_WORKER)
    server_port = ports.of(context.environ, ports.TF_SERVER)
    return {
        chief: [address(first, worker_port)],
        "worker": [address(host, worker_port) for host in others],
        "ps": [address(host, server_port) for host in (first, *others)],
    }


def _chief_name(context: Context) -> str:
    name = context.environ.get("DLC_TF_CHIEF") or CHIEF_NAMES[0]
    if name not in CHIEF_NAMES:
        raise LaunchError(
            CONFIG,
            "what TF_CONFIG calls the first task",
            where="DLC_TF_CHIEF",
            expected=" or ".join(CHIEF_NAMES),
            found=shown(name),
        )
    return name
