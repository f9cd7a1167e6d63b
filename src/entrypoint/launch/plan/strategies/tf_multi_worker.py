"""TensorFlow's MultiWorkerMirroredStrategy: one process on each host, which finds the others in TF_CONFIG."""

from __future__ import annotations

import json

from launch.base import settings
from launch.base.process_spec import Launch
from launch.plan.context import Context
from launch.plan.network import join_host_port
from launch.plan.strategies import Strategy


def plan(context: Context) -> Launch:
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


ROW = Strategy(
    "tf_multi_worker",
    plan,
    asked_by=("sagemaker_multi_worker_mirrored_strategy_enabled",),
    order=7,
    also_called=("tensorflow",),
    counts_devices=False,
    probe_port=settings.TF_MULTI_WORKER_PORT,
    needs_keras_2=True,
)
