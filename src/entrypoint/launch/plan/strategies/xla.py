"""PyTorch/XLA over PJRT: torchrun starts a process per accelerator, our spawn program calls its `_mp_fn`."""

from __future__ import annotations

from launch.base import process_spec
from launch.base.process_spec import Decision, Launch
from launch.plan.compiler_choice import XLA
from launch.plan.context import Context
from launch.plan.network import thread_variables
from launch.plan.strategies import Strategy, torchrun

_MP_FN = rb"^(async )?def _mp_fn\b|^_mp_fn\s*[:=]"


def plan(context: Context) -> Launch:
    """Plan torchrun with PJRT's variables. XRT, which SageMaker's toolkit sets up, left torch_xla with 2.0.

    Raises LaunchError for an entry point that is no Python script.
    """
    context.require_script("PyTorch/XLA")
    device, why = _choose_device(context)
    # PJRT's CPU client sees the devices of its own process only: there they are threads of one process.
    per_host = 1 if device == "CPU" else context.processes_per_host
    spawned = context.script_has(_MP_FN)
    target = (process_spec.program_path("xla_spawn"), context.entry.name) if spawned else context.entry.target()
    argv = (*torchrun.torchrun_command(context, per_host), *torchrun.target_words(target, context.job.arguments))
    process = context.process(
        argv,
        "torchrun",
        context.host_rank * per_host,
        variables={"PJRT_DEVICE": device, **torchrun.prefixed_ranks(context, per_host)},
        defaults={
            **torchrun.address_variables(context),
            **_runtime_variables(context, device),
            **thread_variables(context.devices, per_host),
        },
    )
    how = "the script defines _mp_fn(index)" if spawned else "the script has no _mp_fn"
    what = "our spawn program" if spawned else "the script itself"
    decisions = [Decision(f"PJRT_DEVICE={device}", why), Decision(what, how)]
    # A job that asks for the compiler is refused instead
    if device == "CPU" and len(context.hosts) > 1:
        decisions.append(Decision("warning: each host trains a model of its own", "XLA on CPUs sees one process"))
    return Launch("xla", (process,), tuple(decisions))


def _choose_device(context: Context) -> tuple[str, str]:
    stated = context.environ.get("PJRT_DEVICE")
    if stated:
        return stated, "set by the user"
    if context.devices.num_gpus:
        return "CUDA", "this host has GPUs"
    if context.devices.num_neurons:
        return "NEURON", "this host has Neuron cores"
    return "CPU", "this host has no accelerator"


def _runtime_variables(context: Context, device: str) -> dict[str, str]:
    if device == "CPU":
        devices = context.processes_per_host
        # One thread for each device, or a collective waits for devices that wait for a thread.
        threads = max(devices, context.devices.num_cpus)
        return {"CPU_NUM_DEVICES": str(devices), "XLA_THREAD_POOL_SIZE": str(threads)}
    # What torch_xla counts its processes by.
    return {"GPU_NUM_DEVICES": str(context.processes_per_host)} if device in ("CUDA", "GPU") else {}


ROW = Strategy(
    "xla",
    plan,
    asked_by=("sagemaker_pytorch_xla_multi_worker_enabled",),
    order=6,
    rendezvous_port=torchrun.ROW.rendezvous_port,
    read_elastic=torchrun.read_elastic,
    starters=torchrun.ROW.starters,
    compiler=XLA,
)
