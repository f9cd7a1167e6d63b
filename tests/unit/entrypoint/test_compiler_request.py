"""How a job asks for the compiler, what it gets, and what is refused before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dlc_runtime.compiler import settings
from harness.job_folder import HETEROGENEOUS, HOROVOD, MPI, TORCHRUN, XLA, JobFolder, hosts
from harness.job_folder import compiler_image as image
from launch.base.errors import CONFIG, LaunchError
from launch.plan import compiler_choice

ENABLED = {"sagemaker_training_compiler_enabled": True}
DEBUG = {"sagemaker_training_compiler_debug_mode": True}
REPORT = "/opt/ml/output/data/compiler"


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "ml").config("resourceconfig", hosts("algo-1")).code()


def environment(job: JobFolder) -> dict[str, str]:
    """The whole environment of the first process: what the launcher sets, and what it leaves as the user set it."""
    return {**job.environ, **job.process()["env"]}


def compiler(job: JobFolder) -> dict[str, str]:
    """The variables of a compiler that the launcher sets."""
    env = job.process()["env"]
    return {name: value for name, value in env.items() if re.search("DLC_COMPILER|XLA|PJRT", name)}


def refusal(job: JobFolder) -> str:
    with pytest.raises(LaunchError) as caught:
        job.explain()
    assert caught.value.exit_code == CONFIG
    return str(caught.value)


def decisions(job: JobFolder) -> dict[str, str]:
    return {decision["what"]: decision["why"] for decision in job.explain()["decisions"]}


def test_a_job_that_does_not_ask_gets_nothing(job: JobFolder) -> None:
    image(job, "torch").env(DLC_COMPILER_DEFAULT="inductor")
    assert compiler(job.hyperparameters()) == {}
    assert compiler(job.hyperparameters(sagemaker_training_compiler_enabled=False, **DEBUG)) == {}
    assert not any("compiler" in what for what in decisions(job))


def test_the_variable_names_the_compiler(job: JobFolder) -> None:
    image(job, "torch").hyperparameters().env(DLC_COMPILER="inductor")
    assert compiler(job) == {"DLC_COMPILER_REPORT": REPORT}
    assert decisions(job)["compiler inductor"] == "DLC_COMPILER"


@pytest.mark.parametrize("default", ["inductor", "xla"])
def test_the_hyperparameter_takes_the_compiler_of_the_image(job: JobFolder, default: str) -> None:
    image(job, "torch", "torch_xla").hyperparameters(**ENABLED).env(DLC_COMPILER_DEFAULT=default)
    assert compiler(job)["DLC_COMPILER"] == default
    assert decisions(job)[f"compiler {default}"] == "sagemaker_training_compiler_enabled"


def test_the_variable_wins_over_the_hyperparameter(job: JobFolder) -> None:
    image(job, "torch").hyperparameters(**ENABLED, **DEBUG).env(DLC_COMPILER_DEFAULT="inductor", DLC_COMPILER="off")
    assert compiler(job) == {}
    assert environment(job)["DLC_COMPILER"] == "off"  # dlc_runtime.compiler.prepare reads it
    assert decisions(job)["no compiler"] == "DLC_COMPILER"


def test_debug_mode_comes_from_the_hyperparameter_or_the_variable(job: JobFolder) -> None:
    image(job, "torch").env(DLC_COMPILER_DEFAULT="inductor").hyperparameters(**ENABLED, **DEBUG)
    assert compiler(job)["DLC_COMPILER_DEBUG"] == "1"
    job.hyperparameters(**ENABLED).env(DLC_COMPILER_DEBUG="1")
    assert environment(job)["DLC_COMPILER_DEBUG"] == "1"
    assert compiler(job.env(DLC_COMPILER_DEBUG="0"))["DLC_COMPILER"] == "inductor"


def test_xla_on_pytorch_takes_the_device_that_there_is(job: JobFolder) -> None:
    image(job, "torch", "torch_xla").hyperparameters().env(DLC_COMPILER="xla")
    assert compiler(job)["PJRT_DEVICE"] == "CPU"
    assert "TF_XLA_FLAGS" not in compiler(job)
    assert compiler(job.env(DLC_NUM_GPUS="1"))["PJRT_DEVICE"] == "CUDA"
    assert compiler(job.env(DLC_NUM_GPUS="0", DLC_NUM_NEURONS="2"))["PJRT_DEVICE"] == "NEURON"


def test_debug_mode_of_xla_says_why_it_compiles_and_keeps_a_bounded_number_of_programs(job: JobFolder) -> None:
    image(job, "torch", "torch_xla").hyperparameters().env(DLC_COMPILER="xla", DLC_COMPILER_DEBUG="1")
    assert compiler(job)["PT_XLA_DEBUG_FILE"] == f"{REPORT}/debug/pt_xla.txt"
    assert compiler(job)["XLA_FLAGS"] == f"--xla_dump_to={REPORT}/debug/hlo --xla_dump_max_hlo_modules=200"


def test_xla_on_tensorflow_clusters_operations(job: JobFolder) -> None:
    image(job, "tensorflow").hyperparameters().env(DLC_COMPILER="xla")
    assert compiler(job)["TF_XLA_FLAGS"] == "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    assert {"PJRT_DEVICE", "XLA_FLAGS"} & set(compiler(job)) == set()
    job.env(DLC_NUM_GPUS="1", DLC_COMPILER_DEBUG="1")
    assert compiler(job)["TF_XLA_FLAGS"] == "--tf_xla_auto_jit=2"
    assert compiler(job)["XLA_FLAGS"] == f"--xla_dump_to={REPORT}/debug/hlo --xla_dump_max_hlo_modules=200"
    assert "PT_XLA_DEBUG_FILE" not in compiler(job)
    assert environment(job.env(TF_XLA_FLAGS="mine"))["TF_XLA_FLAGS"] == "mine"


def test_xlas_own_strategy_means_xla_whatever_the_image_prefers(job: JobFolder) -> None:
    image(job, "torch", "torch_xla").env(DLC_COMPILER_DEFAULT="inductor").hyperparameters(**XLA, **ENABLED)
    assert compiler(job)["DLC_COMPILER"] == "xla"
    assert "DLC_COMPILER" not in compiler(job.hyperparameters(**XLA))


@pytest.mark.parametrize("strategy", [{}, TORCHRUN, MPI, HOROVOD, XLA])
def test_every_process_of_a_job_is_told(job: JobFolder, strategy: dict[str, Any]) -> None:
    asked = "xla" if strategy == XLA else "inductor"
    image(job, "torch", "torch_xla", "horovod").hyperparameters(**strategy, **ENABLED)
    job.env(DLC_COMPILER_DEFAULT="inductor")
    assert {process["env"]["DLC_COMPILER"] for process in job.explain()["processes"]} == {asked}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("DLC_COMPILER", "tvm", "expected one of inductor, xla, off; found 'tvm'"),
        ("DLC_COMPILER_DEBUG", "perhaps", "expected 1 or 0; found 'perhaps'"),
        ("DLC_COMPILER_STRICT", "2", "expected 1 or 0; found '2'"),
        ("DLC_COMPILER_DEFAULT", "off", "expected one of inductor, xla; found 'off'"),
    ],
)
def test_a_wrong_value_is_refused(job: JobFolder, name: str, value: str, expected: str) -> None:
    image(job, "torch").hyperparameters(**ENABLED).env(DLC_COMPILER_DEFAULT="inductor").env(**{name: value})
    assert refusal(job).startswith(f"{name}: ")
    assert expected in refusal(job)


@pytest.mark.parametrize(
    ("libraries", "named"),
    [(("torch",), "inductor"), (("torch", "torch_xla"), "xla"), (("tensorflow",), "xla")],
)
def test_an_image_without_a_default_says_which_compiler_it_has(
    job: JobFolder, libraries: tuple[str, ...], named: str
) -> None:
    text = refusal(image(job, *libraries).hyperparameters(**ENABLED))
    assert "expected DLC_COMPILER_DEFAULT in the image" in text
    assert text.endswith(f"set DLC_COMPILER={named}")


def test_xla_without_torch_xla_is_refused(job: JobFolder) -> None:
    text = refusal(image(job, "torch").hyperparameters().env(DLC_COMPILER="xla"))
    assert "found PyTorch 2.13.0 without it; set DLC_COMPILER=inductor, or take an image of the flavor xla" in text


@pytest.mark.parametrize("version", ["1.13.1", "2.2.2+cpu"])
@pytest.mark.parametrize("asked", [{"DLC_COMPILER": "inductor"}, {"DLC_COMPILER": "xla"}])
def test_a_pytorch_that_cannot_compile_in_place_is_refused(job: JobFolder, asked: dict[str, str], version: str) -> None:
    text = refusal(image(job, "torch", torch=version).hyperparameters().env(**asked))
    assert f"found PyTorch {version}" in text
    assert "set DLC_COMPILER=off, or take an image with PyTorch 2.3 or newer" in text


def test_the_first_pytorch_that_compiles_in_place_is_taken(job: JobFolder) -> None:
    assert compiler(image(job, "torch", torch="2.3.0").hyperparameters().env(DLC_COMPILER="inductor"))


def test_a_pytorch_of_unknown_version_is_believed(job: JobFolder) -> None:
    image(job, "torch").hyperparameters().env(DLC_COMPILER="inductor")
    (job.base / "venv/lib/python3.11/site-packages/torch/version.py").write_text("git_version = 'x'\n")
    assert compiler(job)
    (job.base / "venv/lib/python3.11/site-packages/torch/version.py").unlink()
    assert compiler(job)


def test_inductor_for_tensorflow_is_refused(job: JobFolder) -> None:
    text = refusal(image(job, "tensorflow").hyperparameters().env(DLC_COMPILER="inductor"))
    assert text.endswith("set DLC_COMPILER=xla")


def test_inductor_without_a_cpp_compiler_is_refused(job: JobFolder) -> None:
    image(job, "torch", cxx=False).hyperparameters().env(DLC_COMPILER="inductor")
    assert "expected the C++ compiler g++; found none on PATH" in refusal(job)
    own = job.base / "own++"
    own.touch(mode=0o755)
    assert compiler(job.env(CXX=str(own)))
    assert compiler(job.env(CXX=f"{own} -m64"))
    assert "expected the C++ compiler clang++" in refusal(job.env(CXX="clang++"))
    assert "inductor writes C++" in refusal(job.env(CXX=" "))
    assert compiler(job.env(DLC_NUM_GPUS="1"))  # which needs none


def test_an_environment_without_the_runtime_is_refused(job: JobFolder) -> None:
    text = refusal(image(job, "torch", armed=False).hyperparameters().env(DLC_COMPILER="inductor"))
    assert "expected dlc_runtime in" in text
    assert text.endswith("use the image's own environment (no DLC_VENV), or set DLC_COMPILER=off")


def test_inductor_below_xlas_strategy_is_refused(job: JobFolder) -> None:
    image(job, "torch", "torch_xla").hyperparameters(**XLA).env(DLC_COMPILER="inductor")
    assert "set DLC_COMPILER=xla, or let torchrun start the ranks" in refusal(job)


@pytest.mark.parametrize("strategy", [TORCHRUN, MPI, HOROVOD, XLA])
def test_several_processes_of_xla_on_cpus_are_refused(job: JobFolder, strategy: dict[str, Any]) -> None:
    """Each would be rank 0 of 1, and train a model of its own."""
    image(job, "torch", "torch_xla", "horovod").hyperparameters(**strategy).env(DLC_COMPILER="xla")
    assert compiler(job)  # one process
    job.config("resourceconfig", hosts("algo-1", "algo-2"))
    assert "expected one; found 2 processes; set DLC_COMPILER=inductor" in refusal(job)
    assert "found 2 processes" in refusal(job.env(PJRT_DEVICE="CPU", DLC_NUM_GPUS="1"))
    del job.environ["PJRT_DEVICE"]
    assert compiler(job)  # on GPUs


def test_several_xla_devices_of_one_host_are_threads_of_one_process(job: JobFolder) -> None:
    image(job, "torch", "torch_xla").env(DLC_COMPILER="xla")
    job.hyperparameters(**XLA, sagemaker_mpi_num_of_processes_per_host=4)
    assert job.process()["env"]["CPU_NUM_DEVICES"] == "4"
    job.hyperparameters(**TORCHRUN, sagemaker_mpi_num_of_processes_per_host=4)
    assert "found 4 processes" in refusal(job)


def test_hosts_outside_the_distributed_group_are_not_judged_by_its_strategy(job: JobFolder) -> None:
    job.config("resourceconfig", {**HETEROGENEOUS, "current_host": "algo-2", "current_group_name": "data"})
    image(job, "torch", "torch_xla").env(DLC_COMPILER="xla")
    job.hyperparameters(**TORCHRUN, sagemaker_distribution_instance_groups=["dnn"])
    assert compiler(job)["DLC_COMPILER_REPORT"] == REPORT


def test_on_cpus_a_warning_says_that_each_host_of_xlas_strategy_is_a_world(job: JobFolder) -> None:
    job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**XLA)
    assert decisions(job)["warning: each host trains a model of its own"] == "XLA on CPUs sees one process"
    assert not any("warning: each" in what for what in decisions(job.env(DLC_NUM_GPUS="2")))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODE", "fast"), ("EFFORT", "most"), ("OPTIMIZER", "fused"), ("DYNAMIC", "maybe"), ("UNCHECKED", "2"),
        ("TF32", "high"), ("STRICT", "y"), ("EAGER_STEPS", "1"), ("REPORT_MINUTES", "0"), ("DEBUG_MB", "nan"),
        ("BUDGET", "abc"), ("BUDGET", "-5"), ("BUDGET", "60,,5%"), ("BUDGET", "nan"),
    ],
)  # fmt: skip
def test_a_value_that_the_compiler_would_not_understand_is_refused(job: JobFolder, name: str, value: str) -> None:
    image(job, "torch").hyperparameters().env(DLC_COMPILER="inductor", **{f"DLC_COMPILER_{name}": value})
    text = refusal(job)
    assert text.startswith(f"DLC_COMPILER_{name}: ")
    assert text.endswith(f"found '{value}'")
    with pytest.raises(settings.CompilerError, match=f"DLC_COMPILER_{name}="):
        settings.read_settings(job.environ)


def test_the_launcher_and_the_compiler_know_the_same_values(job: JobFolder) -> None:
    assert compiler_choice.WORDS["MODE"] == settings.MODES
    image(job, "torch").hyperparameters().env(
        DLC_COMPILER="inductor", DLC_COMPILER_MODE=" Max ", DLC_COMPILER_EFFORT="max", DLC_COMPILER_OPTIMIZER="off",
        DLC_COMPILER_DYNAMIC="1", DLC_COMPILER_UNCHECKED="true", DLC_COMPILER_TF32="on", DLC_COMPILER_BUDGET="60, 5%",
        DLC_COMPILER_EAGER_STEPS="2", DLC_COMPILER_REPORT_MINUTES="0.5", DLC_COMPILER_DEBUG_MB="",
    )  # fmt: skip
    assert decisions(job)["compiler inductor"] == "DLC_COMPILER"
    found = settings.read_settings(job.environ)
    assert (found.mode, found.budget, found.eager_steps, found.minutes) == ("max", (60.0, 0.05), 2, 0.5)
