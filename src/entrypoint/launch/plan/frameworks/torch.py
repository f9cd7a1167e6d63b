"""PyTorch: what accelerate has to be told, NCCL's flight recorder, and whether a compiler can work here."""

from __future__ import annotations

import os
import re

from launch.base.files import can_make_folder, package_folders
from launch.discovery.devices import Devices
from launch.plan.compiler_choice import INDUCTOR, SWITCH, XLA, CompilerChoice
from launch.plan.context import Context
from launch.plan.frameworks import Framework, HostFacts
from launch.plan.strategies import StrategyChoice

# From this version on the older name of the buffer's size is deprecated
FIRST_WITH_FR_NAMES = (2, 13)
# dlc_runtime asks torch.compiler.is_compiling in every step
FIRST_IN_PLACE = (2, 3)
# In the environment's packages: what arms dlc_runtime
LINE = "dlc_runtime.pth"


def _variables(facts: HostFacts) -> dict[str, str]:
    return {**_accelerate_variables(facts), **(_flight_recorder_variables(facts) if facts.records_collectives else {})}


def _accelerate_variables(facts: HostFacts) -> dict[str, str]:
    """Return what Hugging Face's accelerate, below every Trainer, has to be told: it would guess wrong.

    Without an accelerator each rank would train a model of its own; with torch_xla in the image it would take that.
    """
    # Whose cores are reached through torch_xla
    if facts.uses_xla or facts.devices.num_neurons:
        return {}
    variables = {}
    if "torch_xla" in facts.installed:
        variables["USE_TORCH_XLA"] = "0"
    if ("torch" in facts.installed or not facts.installed) and not facts.devices.num_gpus:
        variables["ACCELERATE_USE_CPU"] = "true"
    return variables


def _flight_recorder_variables(facts: HostFacts) -> dict[str, str]:
    """Switch on NCCL's flight recorder in PyTorch: it dumps the last collectives on a timeout or when asked."""
    version = re.match(r"(\d+)\.(\d+)", torch_version(facts.venv))
    is_new = version is None or (int(version[1]), int(version[2])) >= FIRST_WITH_FR_NAMES
    variables = {
        # Collectives
        "TORCH_FR_BUFFER_SIZE" if is_new else "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{facts.paths.launcher}/nccl_trace_rank_",
    }
    # A rank that cannot make its pipe there gives up
    if can_make_folder(facts.run_dir):
        variables["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = f"{facts.run_dir}/nccl_trace_rank_"
    return variables


def _require_compiler(context: Context, found: CompilerChoice, strategy: StrategyChoice | None) -> None:
    torch = f"PyTorch {torch_version(context.venv)}".strip()
    if found.backend == XLA and "torch_xla" not in context.installed:
        remedy = f"{_compiler_remedy(context)}, or take an image of the flavor xla"
        found.refuse("xla has nothing to compile with", "torch_xla", f"{torch} without it", remedy)
    if found.backend == INDUCTOR and not _compiles_in_place(context):
        found.refuse("inductor compiles modules in place", "PyTorch 2.3 or newer", torch, _compiler_remedy(context))
    if found.backend == INDUCTOR:
        _require_inductor(context, found, strategy)
    elif strategy:
        # Its devices are threads of one process
        per_host = 1 if strategy.row.compiler else context.processes_per_host
        _require_one_world(context, found, per_host * len(context.hosts))


def _require_inductor(context: Context, found: CompilerChoice, strategy: StrategyChoice | None) -> None:
    if strategy and strategy.row.compiler not in ("", found.backend):
        remedy = f"set {SWITCH}=xla, or let torchrun start the ranks (sagemaker_torch_distributed_enabled)"
        found.refuse("inductor leaves XLA devices alone", "another strategy", f"strategy {strategy.row.name}", remedy)
    if not _in_packages(context.venv, LINE):
        remedy = f"use the image's own environment (no DLC_VENV), or set {SWITCH}=off"
        found.refuse("nothing would be compiled", f"dlc_runtime in {context.venv}", "none", remedy)
    compiler = context.environ.get("CXX") or "g++"
    if not context.devices.num_gpus and not _is_program(compiler, context.env["PATH"]):
        remedy = f"take an image of this project, which has g++, or set {SWITCH}=off"
        found.refuse("inductor writes C++", f"the C++ compiler {compiler}", "none on PATH", remedy)


def _require_one_world(context: Context, found: CompilerChoice, processes: int) -> None:
    """Raise LaunchError if XLA's client for CPUs would make every process rank 0 of 1, without a word."""
    stated = context.environ.get("PJRT_DEVICE")
    on_cpu = stated == "CPU" if stated else not (context.devices.num_gpus or context.devices.num_neurons)
    if processes < 2 or not on_cpu:
        return
    remedy = (
        f"set {SWITCH}=inductor and let torchrun start the ranks, or take one host, "
        "sagemaker_pytorch_xla_multi_worker_enabled, and its devices in sagemaker_mpi_num_of_processes_per_host"
    )
    found.refuse("on CPUs each XLA process trains a model of its own", "one", f"{processes} processes", remedy)


def _compiler_remedy(context: Context) -> str:
    if "torch_xla" in context.installed:
        return f"set {SWITCH}={XLA}"
    return f"set {SWITCH}={INDUCTOR}" if _compiles_in_place(context) else _TOO_OLD


_TOO_OLD = f"set {SWITCH}=off, or take an image with PyTorch 2.3 or newer"


def _compiles_in_place(context: Context) -> bool:
    version = re.match(r"(\d+)\.(\d+)", torch_version(context.venv))
    return version is None or (int(version[1]), int(version[2])) >= FIRST_IN_PLACE


def torch_version(venv: str) -> str:
    """Return torch's version, "" if it cannot be read. Importing it would take seconds."""
    for folder in package_folders(venv):
        try:
            with open(f"{folder}/torch/version.py", encoding="utf-8", errors="replace") as file:
                found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", file.read(), re.MULTILINE)
        except OSError:
            continue
        if found:
            return found[1]
    return ""


def _in_packages(venv: str, name: str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for folder in package_folders(venv))


def _is_program(name: str, path: str) -> bool:
    """`name` may have arguments behind it, as CXX may."""
    program = name.split()[0] if name.split() else name
    folders = [""] if "/" in program else [f"{folder}/" for folder in path.split(":") if folder]
    return any(os.access(folder + program, os.X_OK) for folder in folders)


def _compiler_variables(compiler: str, devices: Devices, dumps: str) -> dict[str, str]:
    if compiler != XLA:
        return {}
    device = "CUDA" if devices.num_gpus else "NEURON" if devices.num_neurons else "CPU"
    debug = {"PT_XLA_DEBUG_LEVEL": "2", "PT_XLA_DEBUG_FILE": f"{dumps}/pt_xla.txt"} if dumps else {}
    return {"PJRT_DEVICE": device, **debug}


ROW = Framework(
    "PyTorch",
    _variables,
    compilers=(INDUCTOR, XLA),
    require_compiler=_require_compiler,
    compiler_variables=_compiler_variables,
    compiler_remedy=_compiler_remedy,
    records_collectives=True,
)
