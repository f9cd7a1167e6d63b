"""TensorFlow's parameter servers: on each host a worker and a server, which find the others in TF_CONFIG."""

from __future__ import annotations

import json

from launch.base import process_spec, settings
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.plan.context import Context
from launch.plan.frameworks.tensorflow import has_keras_3
from launch.plan.network import join_host_port
from launch.plan.strategies import PLAIN, Question, Strategy, StrategyChoice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The platform's, which Estimators know, and TensorFlow 2's
CHIEF_NAMES = ("master", "chief")


def plan(context: Context) -> Launch:
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


def chief_name(environ: Mapping[str, str], installed: frozenset[str]) -> tuple[str, str]:
    """Return what TF_CONFIG calls the first task of a job with parameter servers, and why.

    Raises LaunchError for a DLC_TF_CHIEF that is neither of CHIEF_NAMES.
    """
    name = environ.get("DLC_TF_CHIEF")
    if not name:
        is_late = has_keras_3(installed)
        return CHIEF_NAMES[is_late], "ParameterServerStrategy's name" if is_late else "the platform's name"
    if name not in CHIEF_NAMES:
        raise LaunchError(
            CONFIG,
            "what TF_CONFIG calls the first task",
            where="DLC_TF_CHIEF",
            expected=" or ".join(CHIEF_NAMES),
            found=shown(name),
        )
    return name, "DLC_TF_CHIEF"


def _is_served(environ: Mapping[str, str], installed: frozenset[str]) -> bool:
    """Return whether workers serve TensorFlow 2's chief for ever. Beside a `master` each trains, and each counts."""
    return chief_name(environ, installed)[0] == "chief"


def _need_several_hosts(question: Question, choice: StrategyChoice) -> StrategyChoice | None:
    """Return a plain process on a single host, as the platform: there is nobody to share parameters with."""
    if choice.source not in ROW.asked_by or len(question.cluster.hosts_of(question.groups)) > 1:
        return choice
    why = Decision("no parameter server", "there is one host to share parameters")
    return StrategyChoice(choice.source, PLAIN, (why,)) if len(question.cluster.hosts) > 1 else None


ROW = Strategy(
    "tf_parameter_server",
    plan,
    asked_by=("sagemaker_parameter_server_enabled",),
    order=1,
    instead=_need_several_hosts,
    counts_devices=False,
    is_served=_is_served,
    probe_port=settings.TF_WORKER_PORT,
    needs_keras_2=True,
)
