"""PyTorch's torchrun: one per host, which starts that host's ranks."""

from __future__ import annotations

from launch.context import Context
from launch.network import thread_variables
from launch.process_spec import Launch

MASTER_PORT = 7777


def plan(context: Context) -> Launch:
    """One torchrun. Static rendezvous at the group's first host; none of it on a single host.

    Raises LaunchError for an entry point that is no Python script.
    """
    context.require_script("torchrun")
    per_host = context.processes_per_host
    argv = (
        *_neuron_compiler(context),
        *("torchrun", "--nnodes", str(len(context.hosts)), "--nproc_per_node", str(per_host)),
        *_rendezvous(context),
        *context.entry.target(),
        *context.job.arguments,
    )
    defaults = {"NCCL_PROTO": "simple", **thread_variables(context.devices, per_host)}
    return Launch("torchrun", (context.process(argv, "torchrun", context.host_rank * per_host, defaults=defaults),))


def _rendezvous(context: Context) -> tuple[str, ...]:
    if len(context.hosts) == 1:
        return ()
    return (
        *("--master_addr", context.leader, "--master_port", str(MASTER_PORT)),
        *("--node_rank", str(context.host_rank)),
    )


def _neuron_compiler(context: Context) -> tuple[str, ...]:
    return ("neuron_parallel_compile",) if context.environ.get("RUN_NEURON_PARALLEL_COMPILE") == "1" else ()
