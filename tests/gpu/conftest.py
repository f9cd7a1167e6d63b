"""What the GPU tests find: the frameworks of this Python and their GPUs; where one lacks, tests say so and skip.

Python 3.9 or newer, pytest and a framework are all that is needed. Works with PyTorch 1.10 and TensorFlow 2.6, too.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LAUNCHER = Path("/opt/dlc/entrypoint/launcher.py")
PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 600.0  # before a program counts as hung
PACKAGES = ("torch", "torch_xla", "jax-cuda12-pjrt", "tensorflow", "tensorflow-cpu", "horovod")
QUERY = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--in-place", action="store_true", help="test this host's own Python instead of an image")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--in-place") and not LAUNCHER.exists():
        raise pytest.UsageError(
            "this Python is no image's: make test-gpu IMAGE=..., or --in-place to test it all the same"
        )


def gpus() -> list[str]:
    """One line per GPU as NVIDIA's own program lists them: name, driver's version, memory."""
    if not shutil.which(QUERY[0]):
        return []
    asked = subprocess.run(QUERY, capture_output=True, text=True, timeout=60, check=False)
    return asked.stdout.splitlines() if asked.returncode == 0 else []


def packages() -> dict[str, str]:
    """Installed frameworks and their versions."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def described() -> dict[str, str]:
    """What is tested, for the first lines of the output and for the report."""
    lines = gpus()
    return {
        "python": platform.python_version(),
        **packages(),
        "gpus": str(len(lines)),
        "gpu": "; ".join(sorted(set(lines))),
    }


def pytest_report_header() -> list[str]:
    return ["gpu tests: " + ", ".join(f"{name} {value}".rstrip() for name, value in described().items())]


@pytest.fixture(scope="session", autouse=True)
def report(record_testsuite_property: Callable[[str, object], None]) -> None:
    """The same in the file of --junitxml."""
    for name, value in described().items():
        record_testsuite_property(name, value)


@pytest.fixture(scope="session")
def why_no_gpu() -> str:
    """Nothing on a host that has a GPU, else what it lacks."""
    if gpus():
        return ""
    if not Path("/proc/driver/nvidia/version").exists():
        return "this host has no NVIDIA driver"
    return "NVIDIA's driver is there, but no GPU is (in a container: docker run --gpus all)"


@pytest.fixture(scope="session")
def run_program() -> Callable[..., Any]:
    """Runs a file of programs/ with this Python, by a module (-m ...) or directly; its last line is a JSON object.

    What a module puts before each line, such as the rank, is left out. `environ` is added to this environment.
    """

    def run(name: str, *options: str, environ: Mapping[str, str] = {}) -> Any:
        argv = [sys.executable, *options, str(PROGRAMS / name)]
        variables = {**os.environ, **environ}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, env=variables)
        assert done.returncode == 0, f"{shlex.join(argv)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        line = done.stdout.splitlines()[-1]
        return json.loads(line[line.index("{") :])

    return run


def has_kernels(torch: ModuleType) -> bool:
    """Whether PyTorch was built for the first GPU: compiled for its major generation, or PTX for it or an older one."""
    capability = torch.cuda.get_device_capability(0)
    for kind, major, minor in re.findall(r"(sm|compute)_(\d+)(\d)", " ".join(torch.cuda.get_arch_list())):
        built_for = (int(major), int(minor))
        if built_for <= capability and (kind == "compute" or built_for[0] == capability[0]):
            return True
    return False


@pytest.fixture(scope="session")
def torch(why_no_gpu: str) -> ModuleType:
    """PyTorch with at least one GPU, computing in full single precision."""
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    module = importlib.import_module("torch")  # no importorskip: one that is there and broken is no reason to skip
    if module.version.cuda is None:
        pytest.skip(f"PyTorch {module.__version__} is built without CUDA")
    if not module.cuda.is_available():
        pytest.skip(f"PyTorch has no GPU: {why_no_gpu or 'it does not see those of nvidia-smi'}")
    if not has_kernels(module):
        generation = "sm_" + "".join(str(part) for part in module.cuda.get_device_capability(0))
        built_for = ", ".join(module.cuda.get_arch_list())
        pytest.skip(f"PyTorch {module.__version__} has no kernels for this GPU ({generation}), only for {built_for}")
    module.backends.cuda.matmul.allow_tf32 = False
    module.backends.cudnn.allow_tf32 = False
    return module


@pytest.fixture(scope="session")
def compiling(torch: ModuleType) -> ModuleType:
    """PyTorch that can compile for the first GPU."""
    if not hasattr(torch, "compile"):
        pytest.skip(f"torch.compile begins with PyTorch 2.0, this is {torch.__version__}")
    if torch.cuda.get_device_capability(0) < (7, 0):
        pytest.skip("Triton begins with compute capability 7.0 (Volta)")
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    return torch


@pytest.fixture(scope="session")
def tensorflow(why_no_gpu: str) -> ModuleType:
    """TensorFlow with at least one GPU, which it takes no more memory of than it needs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    module = importlib.import_module("tensorflow")
    if not module.test.is_built_with_cuda():
        pytest.skip(f"TensorFlow {module.__version__} is built without CUDA")
    devices = module.config.list_physical_devices("GPU")
    if not devices:
        pytest.skip(f"TensorFlow has no GPU: {why_no_gpu or 'it does not see those of nvidia-smi'}")
    for device in devices:
        module.config.experimental.set_memory_growth(device, True)
    module.config.experimental.enable_tensor_float_32_execution(False)
    return module
