"""Horovod with its gloo controller: it needs neither ssh nor MPI."""

from __future__ import annotations

import os

from launch.base import process_spec, settings
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.files import package_folders
from launch.base.process_spec import Decision, Launch, ProcessSpec
from launch.plan.context import Context
from launch.plan.network import LOOPBACK, thread_variables, url_host
from launch.plan.strategies import Question, Strategy, StrategyChoice, find_strategy

# Until the server listens
WAIT_SECONDS = 120
# Of every collective too: a rank may save for minutes
GLOO_TIMEOUT_SECONDS = 600

# Left by the image's build with the reason as its text. Another Horovod, which the user installs, has no such file.
WITHOUT_NCCL = "horovod/without_nccl.py"
_IMPORT = rb"^(import|from)[ \t]+horovod\b"
CONTROLLER = "DLC_HOROVOD_CONTROLLER"
# The controller, and the strategy that then starts the ranks
BELOW = "mpi"
RENDEZVOUS_SECRET = "DLC_RENDEZVOUS_SECRET"  # noqa: S105 - the name of a variable


def plan(context: Context) -> Launch:
    """Plan a process for every rank of this host, and on the leader the rendezvous server."""
    require_gpus(context)
    ranks = tuple(_rank_process(context, local_rank) for local_rank in range(context.processes_per_host))
    server = (_rendezvous_process(context),) if context.host_rank == 0 and _size(context) > 1 else ()
    return Launch("horovod", server + ranks, (Decision("gloo controller", "it needs no ssh"),))


def _size(context: Context) -> int:
    return context.processes_per_host * len(context.hosts)


def _rank_process(context: Context, local_rank: int) -> ProcessSpec:
    rank = context.host_rank * context.processes_per_host + local_rank
    variables = {
        "HOROVOD_HOSTNAME": context.cluster.current_host,
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(_size(context)),
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_LOCAL_SIZE": str(context.processes_per_host),
        "HOROVOD_CROSS_RANK": str(context.host_rank),
        "HOROVOD_CROSS_SIZE": str(len(context.hosts)),
        "HOROVOD_CONTROLLER": "gloo",
    }
    command = context.entry.command(context.python, context.job.arguments)
    if _size(context) > 1:
        address, port = _meeting_point(context)
        # Horovod makes http://ADDRESS:PORT/ of both. The address can bring along a path, the rendezvous's secret.
        secret = f":{port}/{context.network.secret}" if context.network.secret else ""
        variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = f"{url_host(address)}{secret}"
        variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(port)
        # Horovod gives up 1.5 s after a refusal, so ranks start when the server listens.
        waiting = process_spec.command_after_servers(WAIT_SECONDS, [(address, port)])
        command = (*waiting, *command)
    defaults = {
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_SECONDS),
        **_interface(context),
        **thread_variables(context.devices, context.processes_per_host),
    }
    return context.process(command, "worker", rank, variables, defaults)


def _interface(context: Context) -> dict[str, str]:
    """Name an interface that is there: gloo dies of another, and may die without one."""
    known = context.devices.interfaces
    wanted = (context.cluster.network_interface, *(("lo",) if len(context.hosts) == 1 else ()))
    return next(({"HOROVOD_GLOO_IFACE": name} for name in wanted if name in known or not known), {})


def _rendezvous_process(context: Context) -> ProcessSpec:
    sizes = (str(_size(context)), str(context.processes_per_host), str(len(context.hosts)))
    listen = context.network.listen if len(context.hosts) > 1 else (LOOPBACK,)
    _, port = _meeting_point(context)
    argv = (*process_spec.SYSTEM_PYTHON, process_spec.program_path("horovod_rendezvous"), str(port), *sizes, *listen)
    # In the environment: all users may read arguments
    secret = {RENDEZVOUS_SECRET: context.network.secret}
    return context.process(argv, "rendezvous", 0, secret, essential=False)._replace(vital=True)


def _meeting_point(context: Context) -> tuple[str, int]:
    """Return the rendezvous server, by address: Horovod ends at a third failed look-up."""
    known = context.network.sources.get(context.leader, "")
    # IPv4 is all its client speaks
    if "." not in known:
        known = context.address(context.leader)
    port = settings.port_of(context.environ, settings.HOROVOD_PORT)
    return (known if len(context.hosts) > 1 else LOOPBACK), port


def imports_horovod(context: Context) -> bool:
    """Return whether the script imports Horovod, not only if it is there or asked for."""
    return context.script_has(_IMPORT)


def require_gpus(context: Context) -> None:
    """Raise LaunchError if Horovod would meet GPUs that it cannot use."""
    for folder in package_folders(context.venv) if context.devices.num_gpus else ():
        if os.path.exists(f"{folder}/{WITHOUT_NCCL}"):
            raise LaunchError(
                CONFIG,
                "on GPUs it would abort",
                where="Horovod of this image",
                expected="NCCL in it",
                found=_reason(f"{folder}/{WITHOUT_NCCL}"),
                remedy="take an image with CUDA 12 or 13, or set CUDA_VISIBLE_DEVICES to nothing and train on the CPU",
            )


def _reason(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip().strip('"')


def _plan_below_mpi(context: Context) -> Launch:
    require_gpus(context)
    return find_strategy(BELOW).plan(context)


def _choose_controller(question: Question, choice: StrategyChoice) -> StrategyChoice:
    """Return mpirun as what starts Horovod if the job wants that. Raises LaunchError for an unknown controller."""
    controller = question.environ.get(CONTROLLER) or "gloo"
    if controller not in ("gloo", BELOW):
        raise LaunchError(CONFIG, "controller", where=CONTROLLER, expected="gloo or mpi", found=shown(controller))
    if controller == "gloo":
        return choice
    why = Decision("Horovod below mpirun", CONTROLLER)
    return StrategyChoice(choice.source, find_strategy(BELOW)._replace(plan=_plan_below_mpi), (why,))


ROW = Strategy(
    "horovod",
    plan,
    asked_by=("sagemaker_horovod_enabled",),
    order=2,
    instead=_choose_controller,
    rendezvous_port=settings.HOROVOD_PORT,
    needs_keras_2=True,
)
