"""PyTorch's torchrun: one per host, which starts that host's ranks."""

from __future__ import annotations

import re

from launch.base.errors import CONFIG, LaunchError, shown
from launch.base.paths import RANK_FOLDER
from launch.base.process_spec import Decision, Launch
from launch.plan import programs
from launch.plan.context import Context
from launch.plan.network import address, thread_variables


def plan(context: Context) -> Launch:
    """One torchrun. Static rendezvous at the group's first host, none on a single host, elastic with DLC_ELASTIC.

    Raises LaunchError for an entry point that is no Python script, or a malformed DLC_ELASTIC.
    """
    context.require_script("torchrun")
    per_host = context.processes_per_host
    argv = (
        *_neuron_compiler(context),
        *command(context, per_host),
        *context.entry.target(),
        *context.job.arguments,
    )
    defaults = thread_variables(context.devices, per_host)
    rank = context.host_rank * per_host
    process = context.process(argv, "torchrun", rank, prefixed_ranks(context, per_host), defaults)
    return Launch("torchrun", (process,), _decisions(context))


def prefixed_ranks(context: Context, per_host: int) -> dict[str, str]:
    """Variables that make torchrun's ranks start below our program, which tells their lines apart."""
    if per_host * len(context.hosts) == 1 or "PYTHON_EXEC" in context.environ:
        return {}
    folder = f"{context.run_dir}/{RANK_FOLDER}"
    return {
        "PYTHON_EXEC": programs.path("torch_rank"),
        "DLC_RANK_PYTHON": context.python,
        "DLC_RANK_FOLDER": folder,
    }


def command(context: Context, per_host: int) -> tuple[str, ...]:
    """torchrun with its own options, up to the script."""
    elastic = context.environ.get("DLC_ELASTIC")
    if elastic:
        return ("torchrun", *_elastic(context, elastic), "--nproc_per_node", str(per_host))
    hosts = len(context.hosts)
    argv = ("torchrun", "--nnodes", str(hosts), "--nproc_per_node", str(per_host))
    if hosts == 1:
        return argv
    return (
        *argv,
        *("--master_addr", context.env["MASTER_ADDR"], "--master_port", context.env["MASTER_PORT"]),
        *("--node_rank", str(context.host_rank)),
    )


def _elastic(context: Context, stated: str) -> tuple[str, ...]:
    """DLC_ELASTIC=MIN:MAX or MIN:MAX:RESTARTS hosts: the group may shrink to MIN and grow back."""
    match = re.fullmatch(r"([1-9]\d{0,4}):([1-9]\d{0,4})(?::(\d{1,4}))?", stated)
    if not match or int(match[1]) > int(match[2]):
        raise LaunchError(
            CONFIG,
            "the least and the most hosts of an elastic job",
            where="DLC_ELASTIC",
            expected="MIN:MAX or MIN:MAX:RESTARTS",
            found=shown(stated),
        )
    return (
        *("--nnodes", f"{match[1]}:{match[2]}", "--max_restarts", match[3] or "3"),
        *("--rdzv_backend", "c10d"),
        *("--rdzv_endpoint", address(context.env["MASTER_ADDR"], context.env["MASTER_PORT"])),
        *("--rdzv_id", context.job.job_name or "job"),
    )


def _neuron_compiler(context: Context) -> tuple[str, ...]:
    return ("neuron_parallel_compile",) if context.environ.get("RUN_NEURON_PARALLEL_COMPILE") == "1" else ()


def _decisions(context: Context) -> tuple[Decision, ...]:
    if context.environ.get("DLC_ELASTIC"):
        return (Decision("elastic rendezvous", "DLC_ELASTIC"),)
    return ()
