"""TensorFlow's parameter servers: a worker and a server on each host."""

from __future__ import annotations

import json
from collections.abc import Mapping

from launch.base import process_spec, settings
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch
from launch.plan.context import Context
from launch.plan.frameworks.tensorflow import has_keras_3
from launch.plan.network import join_host_port
from launch.plan.strategies import PLAIN, Question, Strategy, StrategyChoice

# SageMaker's, which Estimators know, and TensorFlow 2's
CHIEF = "DLC_TF_CHIEF"
CHIEF_NAMES = ("master", "chief")


def plan(context: Context) -> Launch:
    """Plan the user's process, and a server on the CPU unless the user's own TF_CONFIG says where they are."""
    command, rank = context.entry.command(context.python, context.job.arguments), context.host_rank
    if "TF_CONFIG" in context.environ:
        alone = Decision("no parameter server of ours", "TF_CONFIG is set")
        return Launch("tf_parameter_server", (context.process(command, "worker", rank),), (alone,))
    chief, why = chief_name(context.environ, context.installed)
    cluster = _cluster_spec(context, chief)
    task = {"index": 0, "type": chief} if rank == 0 else {"index": rank - 1, "type": "worker"}
    config = json.dumps({"cluster": cluster, "environment": "cloud", "task": task})
    worker = context.process(command, "worker", rank, {"TF_CONFIG": config})
    serving = json.dumps({"cluster": cluster, "task": {"index": rank, "type": "ps"}})
    variables = {"TF_CONFIG": serving, "CUDA_VISIBLE_DEVICES": "-1"}
    argv = (context.python, process_spec.program_path("tf_parameter_server"))
    # It serves all workers, so it ends with them
    server = context.process(argv, "ps", rank, variables, essential=False)
    return Launch("tf_parameter_server", (server, worker), (Decision(f"the first task is called {chief}", why),))


def _cluster_spec(context: Context, chief: str) -> dict[str, list[str]]:
    first, *others = map(context.address, context.hosts)
    ports = (settings.TF_WORKER_PORT, settings.TF_SERVER_PORT)
    worker_port, server_port = (settings.port_of(context.environ, port) for port in ports)
    return {
        chief: [join_host_port(first, worker_port)],
        "worker": [join_host_port(host, worker_port) for host in others],
        "ps": [join_host_port(host, server_port) for host in (first, *others)],
    }


def chief_name(environ: Mapping[str, str], installed: frozenset[str]) -> tuple[str, str]:
    """Return what TF_CONFIG calls the first task, and why. Raises LaunchError for a wrong DLC_TF_CHIEF."""
    name = environ.get(CHIEF)
    if not name:
        is_late = has_keras_3(installed)
        return CHIEF_NAMES[is_late], "ParameterServerStrategy's name" if is_late else "SageMaker's name"
    if name in CHIEF_NAMES:
        return name, CHIEF
    what, expected = "what TF_CONFIG calls the first task", " or ".join(CHIEF_NAMES)
    raise LaunchError(CONFIG, what, where=CHIEF, expected=expected, found=shown(name))


def _is_served(environ: Mapping[str, str], installed: frozenset[str]) -> bool:
    """Return whether workers serve a chief for ever. Beside a `master` each trains, and each counts."""
    return chief_name(environ, installed)[0] == "chief"


def _need_several_hosts(question: Question, choice: StrategyChoice) -> StrategyChoice | None:
    """Return a plain process for a single host, as SageMaker does."""
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
