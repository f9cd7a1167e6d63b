"""The variables with which dlc_runtime and the frameworks compile; loaded where a job asks for it."""

from __future__ import annotations

from launch.base.paths import Paths
from launch.discovery.devices import Devices
from launch.plan.compiler.asked import DEBUG, SWITCH, Asked

REPORT = "DLC_COMPILER_REPORT"
MOST_MODULES = 200  # of one process, each in a few files


def variables(found: Asked, installed: frozenset[str], devices: Devices, paths: Paths) -> dict[str, str]:
    """Defaults, for what the image holds; for both frameworks where that is unknown."""
    folder = f"{paths.output_data}/compiler"
    result = {SWITCH: found.backend, REPORT: folder}
    if found.debug:
        result[DEBUG] = "1"
    if found.backend == "xla":
        dumps = f"{folder}/debug" if found.debug else ""
        result.update(_pytorch_xla(installed, devices, dumps))
        result.update(_tensorflow(installed, devices))
        if dumps:
            result["XLA_FLAGS"] = f"--xla_dump_to={dumps}/hlo --xla_dump_max_hlo_modules={MOST_MODULES}"
    return result


def _pytorch_xla(installed: frozenset[str], devices: Devices, dumps: str) -> dict[str, str]:
    if "tensorflow" in installed:
        return {}
    device = "CUDA" if devices.num_gpus else "NEURON" if devices.num_neurons else "CPU"
    debug = {"PT_XLA_DEBUG_LEVEL": "2", "PT_XLA_DEBUG_FILE": f"{dumps}/pt_xla.txt"} if dumps else {}
    return {"PJRT_DEVICE": device, **debug}


def _tensorflow(installed: frozenset[str], devices: Devices) -> dict[str, str]:
    if installed and "tensorflow" not in installed:
        return {}
    on_cpu = "" if devices.num_gpus else " --tf_xla_cpu_global_jit"  # else XLA leaves the CPU's operations alone
    return {"TF_XLA_FLAGS": f"--tf_xla_auto_jit=2{on_cpu}"}
