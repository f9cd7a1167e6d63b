"""A Ray cluster over all hosts of the job: head and driver on the first host of the group, a node on each other one."""

from __future__ import annotations

import json
import os

from launch.base import process_spec, settings
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.process_spec import Decision, Launch, ProcessSpec
from launch.job import instance_groups
from launch.plan.context import Context
from launch.plan.network import LOOPBACK, join_host_port
from launch.plan.strategies import Strategy

# For the head to listen, and for every host to join; all hosts start together
WAIT_SECONDS = 300
# Ray's own; no group can be called so
OWN_RESOURCES = ("CPU", "GPU", "memory", "object_store_memory")
# Characters: Ray makes sockets below it, whose paths may have 107
LONGEST_FOLDER = 42
# In the run directory
FOLDER, TOKEN_FILE = "ray", "ray_token"
AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def plan(context: Context) -> Launch:
    """Plan Ray's head and the entry point on the first host, a node on each other one, of whatever group.

    Raises LaunchError if Ray is not installed, or another group has a program of its own.
    """
    _require_ray(context)
    _require_one_driver(context)
    leads = context.cluster.current_host == context.leader
    processes = (_head(context), _driver_process(context)) if leads else (_node_process(context),)
    why = "Ray runs one script: the others run what it sends them"
    decisions = (Decision(f"the script runs on {context.leader}", why), *_unnamed(context))
    # Also without a secret: the launcher makes the folder private for it.
    files = {f"{context.run_dir}/{TOKEN_FILE}": context.network.secret}
    return Launch("ray", processes, decisions, files=files)


def _head(context: Context) -> ProcessSpec:
    port = settings.port_of(context.environ, settings.RAY_PORT)
    argv = _start_command(context, "--head", f"--port={port}", "--include-dashboard=false")
    process = context.process(argv, "ray head", 0, defaults=_defaults(context), essential=False)
    return process._replace(vital=True)


def _node_process(context: Context) -> ProcessSpec:
    head, port = _head_address(context), settings.port_of(context.environ, settings.RAY_PORT)
    argv = (
        *process_spec.command_after_servers(WAIT_SECONDS, [(head, port)]),
        *_start_command(context, f"--address={join_host_port(head, port)}"),
    )
    rank = _nodes(context).index(context.cluster.current_host)
    return context.process(argv, "ray node", rank, defaults=_defaults(context), essential=False)


def _driver_process(context: Context) -> ProcessSpec:
    head, port = _head_address(context), settings.port_of(context.environ, settings.RAY_PORT)
    # To look at the cluster takes seconds of a CPU, which the head needs first.
    listens = process_spec.command_after_servers(WAIT_SECONDS, [(head, port)])
    complete = (
        context.python,
        process_spec.program_path("ray_driver"),
        str(WAIT_SECONDS),
        str(len(_nodes(context))),
        "--",
    )
    command = context.entry.command(context.python, context.job.arguments)
    variables = {"RAY_ADDRESS": join_host_port(head, port)}
    return context.process((*listens, *complete, *command), "worker", 0, variables, _defaults(context))


def _start_command(context: Context, *options: str) -> tuple[str, ...]:
    """Return `ray start` in the foreground with what every node states."""
    devices = context.devices
    own = _own_address(context)
    return (
        *(*process_spec.SYSTEM_PYTHON, process_spec.program_path("ray_node"), _folder(context), *options),
        *((f"--node-ip-address={own}",) if own else ()),
        *(f"--num-cpus={devices.usable_cpus}", f"--num-gpus={devices.num_gpus}"),
        f"--resources={json.dumps(_resources(context))}",
    )


def _resources(context: Context) -> dict[str, int]:
    """Return the group's name, once a CPU of the host: a task that wants one CPU in this group takes one of each.

    With one of them per host, a task that asks for `{"data_group": 1}` would have the host to itself.
    """
    group = context.cluster.current_group
    if not group or group in OWN_RESOURCES:
        return {}
    return {group: max(context.devices.usable_cpus, context.devices.num_gpus)}


def _unnamed(context: Context) -> tuple[Decision, ...]:
    names = [group.name for group in context.cluster.groups if group.name in OWN_RESOURCES]
    return tuple(Decision(f"warning: no resource for group {name}", "Ray has its own of that name") for name in names)


def _defaults(context: Context) -> dict[str, str]:
    """Close the cluster to who does not know the job's secret, which is in a file that a variable names."""
    defaults = {"RAY_USAGE_STATS_ENABLED": "0"}
    if len(_nodes(context)) == 1:
        # Ray's name for: listen on the loopback interface only
        defaults["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if context.network.secret and not any(name in context.environ for name in AUTHENTICATION):
        defaults["RAY_AUTH_MODE"] = "token"
        defaults["RAY_AUTH_TOKEN_PATH"] = f"{context.run_dir}/{TOKEN_FILE}"
    return defaults


def _nodes(context: Context) -> tuple[str, ...]:
    """Return every host of the job, the head first."""
    return (context.leader, *(host for host in context.cluster.hosts if host != context.leader))


def _own_address(context: Context) -> str:
    """Return this host's address on the job's network; empty if it is unknown: Ray looks for one itself."""
    if len(_nodes(context)) == 1:
        return LOOPBACK
    listen = context.network.listen
    return next((known for known in listen if ":" not in known), listen[0] if listen else "")


def _head_address(context: Context) -> str:
    if context.cluster.current_host == context.leader:
        return _own_address(context) or context.address(context.leader)
    return context.network.sources.get(context.leader) or context.address(context.leader)


def _folder(context: Context) -> str:
    """Return where Ray keeps sessions, logs and sockets on this host. Raises LaunchError for a path too long."""
    folder = f"{context.run_dir}/{FOLDER}"
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        raise LaunchError(
            CONFIG, "too long for the sockets that Ray makes below it", where="DLC_RUN_DIR",
            expected=f"at most {LONGEST_FOLDER - len(FOLDER) - 1} characters", found=shown(context.run_dir),
            remedy="set it to a short path, such as /run/dlc",
        )  # fmt: skip
    return folder


def _require_ray(context: Context) -> None:
    """Raise LaunchError if Ray is not there. What the user's code installs may bring it: ray_node.py looks then."""
    if not context.installed or "ray" in context.installed or context.installs:
        return
    raise LaunchError(
        CONFIG, "the image has no Ray", where="strategy ray", expected=f"the package ray in {context.venv}",
        found="none", remedy="put ray into requirements.txt, or build the image with `--set extras=[ray]`",
    )  # fmt: skip


def _require_one_driver(context: Context) -> None:
    """Raise LaunchError for programs of groups that would never start."""
    stated = context.job.group_programs
    own = next((stated.get(group.name) for group in context.cluster.groups if context.leader in group.hosts), None)
    for name, program in stated.items():
        if program != own:
            raise LaunchError(
                CONFIG, f"group {shown(name)} has a program that would not run",
                where=instance_groups.setting_name(context.environ), expected=f"one program, on {context.leader}",
                found=shown(dict(stated)),
                remedy='leave it out: the script sends work there with resources={"GROUP": 1}',
            )  # fmt: skip


ROW = Strategy(
    "ray",
    plan,
    # Ours: SageMaker has none
    asked_by=("sagemaker_ray_enabled",),
    order=8,
    counts_devices=False,
    led=True,
    takes_every_host=True,
    # Nobody waits for its tasks when the script has ended
    end_grace=3.0,
)
