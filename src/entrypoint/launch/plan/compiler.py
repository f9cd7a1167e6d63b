"""Requests for SageMaker Training Compiler, mapped to the XLA settings of plain PyTorch and TensorFlow."""

from __future__ import annotations

from launch.base.paths import Paths
from launch.base.process_spec import Decision
from launch.job.parameters import Job

ENABLED = "sagemaker_training_compiler_enabled"
DEBUG = "sagemaker_training_compiler_debug_mode"


def compiler_variables(job: Job, installed: frozenset[str], paths: Paths) -> dict[str, str]:
    """Variables for the frameworks that the image holds; for both where that is unknown. Set only where unset."""
    if not job.flag(ENABLED):
        return {}
    debug = job.flag(DEBUG)
    folder = f"{paths.output_data}/compiler"
    variables = {}
    if "torch" in installed or not installed:
        variables.update(_pytorch(folder if debug else ""))
    if "tensorflow" in installed or not installed:
        variables["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2"
        if debug:
            variables["XLA_FLAGS"] = f"--xla_dump_to={folder}"
    return variables


def compiler_decisions(job: Job) -> tuple[Decision, ...]:
    """The line that says what became of the request."""
    if not job.flag(ENABLED):
        return ()
    return (Decision("XLA settings stand in for the Training Compiler", ENABLED),)


def _pytorch(debug_folder: str) -> dict[str, str]:
    # What the Training Compiler's own torch_xla set while it was imported.
    variables = {"GPU_NUM_DEVICES": "1", "SM_TRAINING_COMPILER_CONFIGURED": "1"}
    if debug_folder:
        switches = ("PT_XLA_DEBUG", "XLA_IR_DEBUG", "XLA_HLO_DEBUG", "XLA_DUMP_FATAL_STACK", "XLA_DUMP_HLO_GRAPH")
        variables.update(dict.fromkeys(switches, "1"))
        variables["XLA_SAVE_TENSORS_FILE"] = f"{debug_folder}/XLA_SAVE_TENSORS_FILE.hlo"
        variables["XLA_SAVE_TENSORS_FMT"] = "hlo"
        variables["XLA_METRICS_FILE"] = f"{debug_folder}/XLA_METRICS_FILE.txt"
        variables["XLA_SAVE_HLO_FILE"] = f"{debug_folder}/XLA_SAVE_HLO_FILE.hlo"
    return variables
