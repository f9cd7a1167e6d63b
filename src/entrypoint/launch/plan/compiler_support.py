"""Whether the compiler can work here, and its variables. Loaded only when a job asks for a compiler."""

from __future__ import annotations

import os
import re

from launch.base.errors import CONFIG, LaunchError
from launch.base.paths import Paths
from launch.discovery.devices import Devices
from launch.plan.compiler_choice import DEBUG, DEFAULT, SWITCH, CompilerChoice
from launch.plan.context import Context
from launch.plan.strategies import StrategyChoice

# Of PyTorch: dlc_runtime asks torch.compiler.is_compiling in every step
FIRST_IN_PLACE = (2, 3)
# In the environment's packages: what arms dlc_runtime
LINE = "dlc_runtime.pth"


def require_supported(context: Context, found: CompilerChoice, strategy: StrategyChoice | None) -> None:
    """Raise LaunchError unless the image and the job fit the compiler. Of an unknown environment all is believed.

    `strategy` is None for hosts that are no part of the distributed group.
    """
    if not found.backend:
        _refuse_compiler(
            found, "the image names no compiler", f"{DEFAULT} in the image", "none", _nearest_remedy(context)
        )
    if "torch" in context.installed:
        _require_pytorch(context, found, strategy)
    elif "tensorflow" in context.installed and found.backend == "inductor":
        _refuse_compiler(found, "inductor compiles PyTorch", "an image with PyTorch", "TensorFlow", f"set {SWITCH}=xla")


def _require_pytorch(context: Context, found: CompilerChoice, strategy: StrategyChoice | None) -> None:
    torch = f"PyTorch {torch_version(context.venv)}".strip()
    if found.backend == "xla" and "torch_xla" not in context.installed:
        remedy = f"{_nearest_remedy(context)}, or take an image of the flavor xla"
        _refuse_compiler(found, "xla has nothing to compile with", "torch_xla", f"{torch} without it", remedy)
    if found.backend == "inductor" and not _compiles_in_place(context):
        _refuse_compiler(
            found, "inductor compiles modules in place", "PyTorch 2.3 or newer", torch, _nearest_remedy(context)
        )
    if found.backend == "inductor":
        _require_inductor(context, found, strategy)
    elif strategy:
        # Its devices are threads of one process
        per_host = 1 if strategy.row.compiler else context.processes_per_host
        _require_one_world(context, found, per_host * len(context.hosts))


def _require_inductor(context: Context, found: CompilerChoice, strategy: StrategyChoice | None) -> None:
    if strategy and strategy.row.compiler not in ("", found.backend):
        remedy = f"set {SWITCH}=xla, or let torchrun start the ranks (sagemaker_torch_distributed_enabled)"
        _refuse_compiler(
            found, "inductor leaves XLA devices alone", "another strategy", f"strategy {strategy.row.name}", remedy
        )
    if not _in_packages(context.venv, LINE):
        remedy = f"use the image's own environment (no DLC_VENV), or set {SWITCH}=off"
        _refuse_compiler(found, "nothing would be compiled", f"dlc_runtime in {context.venv}", "none", remedy)
    compiler = context.environ.get("CXX") or "g++"
    if not context.devices.num_gpus and not _is_program(compiler, context.env["PATH"]):
        remedy = f"take an image of this project, which has g++, or set {SWITCH}=off"
        _refuse_compiler(found, "inductor writes C++", f"the C++ compiler {compiler}", "none on PATH", remedy)


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
    _refuse_compiler(
        found, "on CPUs each XLA process trains a model of its own", "one", f"{processes} processes", remedy
    )


def _refuse_compiler(found: CompilerChoice, what: str, expected: str, have: str, remedy: str) -> None:
    raise LaunchError(CONFIG, what, where=found.source, expected=expected, found=have, remedy=remedy)


def _nearest_remedy(context: Context) -> str:
    """Return what works in this image, or where it would."""
    if "tensorflow" in context.installed or "torch_xla" in context.installed:
        return f"set {SWITCH}=xla"
    if "torch" in context.installed and not _compiles_in_place(context):
        return f"set {SWITCH}=off, or take an image with PyTorch 2.3 or newer"
    return f"set {SWITCH}=inductor"


def _compiles_in_place(context: Context) -> bool:
    version = re.match(r"(\d+)\.(\d+)", torch_version(context.venv))
    return version is None or (int(version[1]), int(version[2])) >= FIRST_IN_PLACE


def torch_version(venv: str) -> str:
    """Return torch's version, "" if it cannot be read. Importing it would take seconds."""
    for folder in _package_folders(venv):
        try:
            with open(f"{folder}/torch/version.py", encoding="utf-8", errors="replace") as file:
                found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", file.read(), re.MULTILINE)
        except OSError:
            continue
        if found:
            return found[1]
    return ""


def _in_packages(venv: str, name: str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for folder in _package_folders(venv))


def _package_folders(venv: str) -> list[str]:
    try:
        pythons = sorted(os.listdir(f"{venv}/lib"))
    except OSError:
        return []
    return [f"{venv}/lib/{python}/site-packages" for python in pythons]


def _is_program(name: str, path: str) -> bool:
    """`name` may have arguments behind it, as CXX may."""
    program = name.split()[0] if name.split() else name
    folders = [""] if "/" in program else [f"{folder}/" for folder in path.split(":") if folder]
    return any(os.access(folder + program, os.X_OK) for folder in folders)


REPORT = "DLC_COMPILER_REPORT"
# Of one process, each in a few files
MOST_MODULES = 200


def compiler_variables(
    found: CompilerChoice, installed: frozenset[str], devices: Devices, paths: Paths
) -> dict[str, str]:
    """Return the defaults for the framework that the image holds; for both if that is unknown."""
    folder = f"{paths.output_data}/compiler"
    result = {SWITCH: found.backend, REPORT: folder}
    if found.debug:
        result[DEBUG] = "1"
    if found.backend == "xla":
        dumps = f"{folder}/debug" if found.debug else ""
        result.update(_pytorch_xla_variables(installed, devices, dumps))
        result.update(_tensorflow_variables(installed, devices))
        if dumps:
            result["XLA_FLAGS"] = f"--xla_dump_to={dumps}/hlo --xla_dump_max_hlo_modules={MOST_MODULES}"
    return result


def _pytorch_xla_variables(installed: frozenset[str], devices: Devices, dumps: str) -> dict[str, str]:
    if "tensorflow" in installed:
        return {}
    device = "CUDA" if devices.num_gpus else "NEURON" if devices.num_neurons else "CPU"
    debug = {"PT_XLA_DEBUG_LEVEL": "2", "PT_XLA_DEBUG_FILE": f"{dumps}/pt_xla.txt"} if dumps else {}
    return {"PJRT_DEVICE": device, **debug}


def _tensorflow_variables(installed: frozenset[str], devices: Devices) -> dict[str, str]:
    if installed and "tensorflow" not in installed:
        return {}
    # Else XLA leaves the CPU's operations alone
    on_cpu = "" if devices.num_gpus else " --tf_xla_cpu_global_jit"
    return {"TF_XLA_FLAGS": f"--tf_xla_auto_jit=2{on_cpu}"}
