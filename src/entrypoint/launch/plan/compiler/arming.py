"""The variables with which dlc_runtime and the frameworks compile; loaded where a job asks for it."""

from __future__ import annotations

from launch.base.paths import Paths
from launch.discovery.devices import Devices
from launch.plan.compiler.asked import DEBUG, SWITCH, Asked

REPORT = "DLC_COMPILER_REPORT"


def variables(found: Asked, installed: frozenset[str], devices: Devices, paths: Paths) -> dict[str, str]:
    """Defaults, for what the image holds; for both frameworks where that is unknown."""
    folder = f"{paths.output_data}/compiler"
    result = {SWITCH: found.backend, REPORT: folder}
    if found.debug:
        result[DEBUG] = "1"
    if found.backend == "xla":
        result.update(_pytorch_xla(installed, devices))
        result.update(_tensorflow(installed, devices, folder if found.debug else ""))
    return result


def _pytorch_xla(installed: frozenset[str], devices: Devices) -> dict[str, str]:
    if "tensorflow" in installed:
        return {}
    device = "CUDA" if devices.num_gpus else "NEURON" if devices.num_neurons else "CPU"
    return {"PJRT_DEVICE": device}


def _tensorflow(installed: frozenset[str], devices: Devices, debug_folder: str) -> dict[str, str]:
    if installed and "tensorflow" not in installed:
        return {}
    on_cpu = "" if devices.num_gpus else " --tf_xla_cpu_global_jit"  # else XLA leaves the CPU's operations alone
    result = {"TF_XLA_FLAGS": f"--tf_xla_auto_jit=2{on_cpu}"}
    if debug_folder:
        result["XLA_FLAGS"] = f"--xla_dump_to={debug_folder}"
    return result
