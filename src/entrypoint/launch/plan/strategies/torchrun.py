"""PyTorch's torchrun: one per host, which starts its ranks; its variables, if the place started each rank."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launch.base import process_spec
from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import RANK_FOLDER
from launch.base.process_spec import Decision, Launch
from launch.base.settings import MASTER_PORT, read_count
from launch.plan.context import Context
from launch.plan.network import LOOPBACK, join_host_port, thread_variables
from launch.plan.strategies import Elastic, Question, Strategy, StrategyChoice, mpi

DEFAULT_RESTARTS = 3
SMDISTRIBUTED = "sagemaker_distributed_dataparallel_enabled"
LOG_LEVEL = "TORCH_CPP_LOG_LEVEL"


def plan(context: Context) -> Launch:
    """Plan one torchrun: static rendezvous at the first host, none on a single host, elastic with DLC_ELASTIC.

    Raises LaunchError for an entry point that is no Python script.
    """
    context.require_script("torchrun")
    per_host = context.processes_per_host
    argv = (
        *_neuron_compiler(context),
        *torchrun_command(context, per_host),
        *target_words(context.entry.target(), context.job.arguments),
    )
    defaults = {**address_variables(context), **thread_variables(context.devices, per_host)}
    rank = context.host_rank * per_host
    process = context.process(argv, "torchrun", rank, prefixed_ranks(context, per_host), defaults)
    elastic = (Decision("elastic rendezvous", "DLC_ELASTIC"),) if context.environ.get("DLC_ELASTIC") else ()
    return Launch("torchrun", (process,), elastic)


def _plan_task(context: Context) -> Launch:
    """Plan the entry point with the variables that torchrun would give this rank."""
    task = context.cluster.task
    if task is None:
        raise ValueError("no task")
    # Slurm may show each task its own GPU alone
    confined = context.devices.num_gpus == 1 and task.local_size > 1
    variables = {
        "RANK": str(task.rank),
        "WORLD_SIZE": str(task.world_size),
        "LOCAL_RANK": "0" if confined else str(task.local_rank),
        "LOCAL_WORLD_SIZE": str(task.local_size),
        "GROUP_RANK": str(context.cluster.hosts.index(context.cluster.current_host)),
    }
    defaults = thread_variables(context.devices, task.local_size)
    argv = context.entry.command(context.python, context.job.arguments)
    why = "Slurm ends the others when one fails with srun --kill-on-bad-exit"
    launch = Launch("task", (context.process(argv, "worker", task.rank, variables, defaults),))
    return launch._replace(decisions=(Decision(f"rank {task.rank} of {task.world_size}", why),))


def prefixed_ranks(context: Context, per_host: int) -> dict[str, str]:
    """Return what makes torchrun's ranks start below our program, which tells their lines apart."""
    if per_host * len(context.hosts) == 1 or "PYTHON_EXEC" in context.environ:
        return {}
    return {
        "PYTHON_EXEC": process_spec.program_path("torch_rank"),
        "DLC_RANK_PYTHON": context.python,
        "DLC_RANK_FOLDER": f"{context.run_dir}/{RANK_FOLDER}",
        **_quiet_variables(context),
    }


def _quiet_variables(context: Context) -> dict[str, str]:
    """Let torchrun itself, and no rank, keep quiet on strangers that come to its port."""
    if len(context.hosts) == 1 or LOG_LEVEL in context.environ:
        return {}
    return {LOG_LEVEL: "ERROR", "DLC_RANK_QUIET": "0"}


def torchrun_command(context: Context, per_host: int) -> tuple[str, ...]:
    """Return words before the script."""
    if stated := read_elastic(context.environ):
        return ("torchrun", *_elastic_options(context, stated), "--nproc_per_node", str(per_host))
    argv = ("torchrun", "--nnodes", str(len(context.hosts)), "--nproc_per_node", str(per_host))
    if len(context.hosts) == 1:
        return argv
    return (
        *argv,
        *("--master_addr", context.env["MASTER_ADDR"], "--master_port", context.env["MASTER_PORT"]),
        *("--node_rank", str(context.host_rank)),
    )


def target_words(target: tuple[str, ...], arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the script, or -m and the module, and its arguments, out of reach of torchrun's own parser.

    argparse looks for abbreviations of its options there too: --num could match --nnodes and two others.
    """
    if not any(argument.startswith("-") for argument in arguments):
        return (*target, *arguments)
    is_module = target[0] == "-m"
    return (*(target[:1] if is_module else ()), "--", *(target[1:] if is_module else target), *arguments)


def read_elastic(environ: Mapping[str, str]) -> Elastic | None:
    """Read DLC_ELASTIC, hosts that may go and come back; None without it. Raises LaunchError if it is malformed."""
    stated = environ.get("DLC_ELASTIC")
    if not stated:
        return None
    match = re.fullmatch(r"([1-9]\d{0,4}):([1-9]\d{0,4})(?::(\d{1,4}))?", stated)
    if not match or int(match[1]) > int(match[2]):
        what, expected = "the least and the most hosts of an elastic job", "MIN:MAX or MIN:MAX:RESTARTS"
        raise LaunchError(CONFIG, what, where="DLC_ELASTIC", expected=expected, found=shown(stated))
    restarts = int(match[3]) if match[3] else read_count(environ, "DLC_MAX_RESTARTS", DEFAULT_RESTARTS)
    return Elastic(int(match[1]), int(match[2]), restarts)


def _elastic_options(context: Context, stated: Elastic) -> tuple[str, ...]:
    """Put the rendezvous on the first host, which need not know itself by its name."""
    is_stated = any(context.environ.get(name) for name in ("MASTER_ADDR", "PET_MASTER_ADDR"))
    is_host = () if is_stated else ("--rdzv_conf", f"is_host={str(context.host_rank == 0).lower()}")
    return (
        *("--nnodes", f"{stated.least}:{stated.most}", "--max_restarts", str(stated.restarts)),
        *("--rdzv_backend", "c10d"),
        *("--rdzv_endpoint", join_host_port(context.env["MASTER_ADDR"], context.env["MASTER_PORT"])),
        *is_host,
        *("--rdzv_id", context.job.job_name or "job"),
    )


def address_variables(context: Context) -> dict[str, str]:
    """Return this host's address for torchrun, which would take it from the host's own name, which need not resolve.

    In an elastic job rank 0's host must tell its address in every round; torch 2.13 keeps that of the first to itself.
    PET_LOCAL_ADDR is torchrun's --local_addr, an option that PyTorch 1 does not know.
    """
    if read_elastic(context.environ):
        own = context.address(context.cluster.current_host)
        return {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "PET_LOCAL_ADDR": own}
    return {"PET_LOCAL_ADDR": LOOPBACK} if len(context.hosts) == 1 else {}


def _neuron_compiler(context: Context) -> tuple[str, ...]:
    return ("neuron_parallel_compile",) if context.environ.get("RUN_NEURON_PARALLEL_COMPILE") == "1" else ()


def _replace_smdistributed(question: Question, choice: StrategyChoice) -> StrategyChoice:
    """Return what runs in place of AWS's own library: MPI, unless PyTorch runs a Python script."""
    if choice.source != SMDISTRIBUTED:
        return choice
    job, installed = question.job, question.installed
    is_torchrun = job.program.endswith(".py") and ("torch" in installed or not installed)
    row = ROW if is_torchrun else mpi.ROW
    decisions = [Decision(f"smdistributed runs on {row.name} with NCCL", "its library is in no public image")]
    if is_torchrun and job.text(mpi.SMDDP_OPTIONS).strip():
        decisions.append(Decision(f"{mpi.SMDDP_OPTIONS} is not used", "there is no mpirun"))
    return StrategyChoice(choice.source, row, tuple(decisions))


ROW = Strategy(
    "torchrun",
    plan,
    asked_by=("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled", SMDISTRIBUTED),
    order=4,
    expected_by="PET_NNODES",
    instead=_replace_smdistributed,
    of_tasks=Strategy("task", _plan_task),
    rendezvous_port=MASTER_PORT,
    read_elastic=read_elastic,
    starters=("torchrun",),
)
