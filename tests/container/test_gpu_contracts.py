"""What a GPU will need of an image, as far as a host without one can tell: versions, compilers and plug-ins found."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dlc.buildspec import cuda_efa
from dlc.buildspec.lockfile import locked_versions
from harness.engine import run_once
from harness.images import Image, repository

pytestmark = pytest.mark.container

SCRIPTS = Path(__file__).parent / "scripts"
LIST_DEVICES = "import tensorflow as tf; print(*[each.device_type for each in tf.config.list_physical_devices()])"
LOAD = 'import ctypes; ctypes.CDLL("libdriver.so.1"); print("loaded")'
TOLERANCE = 1e-5  # single precision, values of order one


def run_script(image: Image, name: str, *variables: str) -> str:
    """What a script of this folder printed in a fresh container; `variables` as in PJRT_DEVICE=CPU."""
    options = [word for variable in variables for word in ("--env", variable)]
    mount = ("--volume", f"{SCRIPTS}:/scripts:ro", "--network", "none")
    done = run_once(image.ref, "python", f"/scripts/{name}", options=(*mount, *options))
    assert done.returncode == 0, done.stderr
    return done.stdout


def locked(image: Image, library: str) -> list[int]:
    """The locked version of one of NVIDIA's libraries (`nccl`), whose package is named after CUDA's major or not."""
    versions = locked_versions(repository(), image.variant)
    [found] = [text for name, text in versions.items() if re.fullmatch(rf"nvidia-{library}(-cu\d+)?", name)]
    return [int(number) for number in found.split(".")]


def cudnn_number(major: int, minor: int, patch: int, *_: int) -> int:
    """As cudnnGetVersion() counts; cuDNN 9 made room for more minor versions."""
    return major * (10000 if major >= 9 else 1000) + minor * 100 + patch


@pytest.mark.when(device="cu*")
@pytest.mark.parametrize("folder", ["lib", "lib64"])
def test_a_driver_that_is_mounted_without_ldconfig_is_found(image: Image, folder: str) -> None:
    """As some clusters mount it: here with a library of the image in the place of the driver's."""
    place = f"/usr/local/nvidia/{folder}"
    shell = f"mkdir -p {place} && cp -L /lib/*/libz.so.1 {place}/libdriver.so.1 && python -c '{LOAD}'"
    assert run_once(image.ref, "sh", "-c", shell).stdout == "loaded\n"


@pytest.mark.when(device="cu*")
def test_ldconfig_finds_a_driver_that_is_mounted(image: Image) -> None:
    """NVIDIA's container runtime calls it, whatever LD_LIBRARY_PATH the user sets."""
    place = "/usr/local/nvidia/lib64"
    shell = f"mkdir -p {place} && cp -L /lib/*/libz.so.1 {place}/libdriver.so.1 && ldconfig -v 2>/dev/null"
    assert f"{place}:" in run_once(image.ref, "sh", "-c", shell).stdout


@pytest.fixture(scope="module")
def torch_cuda(image: Image) -> Mapping[str, Any]:
    return dict(json.loads(run_script(image, "torch_cuda_versions.py")))


@pytest.mark.when(framework="pytorch", device="cu*")
def test_torch_is_for_the_cuda_of_the_image(image: Image, torch_cuda: Mapping[str, Any]) -> None:
    assert "cu" + torch_cuda["cuda"].replace(".", "") == image.variant.settings.device


@pytest.mark.when(framework="pytorch", version=">=2.6", device="cu*")
def test_torchvision_is_for_the_cuda_of_the_image(image: Image) -> None:
    asked = "import torch, torchvision; print(torch.ops.torchvision._cuda_version())"
    done = run_once(image.ref, "python", "-c", asked)
    device = image.variant.settings.device
    assert done.stdout == f"{cuda_efa.device_major(device) * 1000 + int(device[-1]) * 10}\n", done.stderr


@pytest.mark.when(framework="pytorch", version=">=2.0", device="cu*")
def test_torch_has_loaded_the_locked_cuda_runtime(image: Image, torch_cuda: Mapping[str, Any]) -> None:
    major, minor, *_ = locked(image, "cuda-runtime")
    assert torch_cuda["loaded"]["cudart"] == major * 1000 + minor * 10
    assert "/nvidia/" in torch_cuda["files"]["cudart"]


@pytest.mark.when(framework="pytorch", version=">=2.0", device="cu*")
def test_torch_has_loaded_the_locked_cudnn(image: Image, torch_cuda: Mapping[str, Any]) -> None:
    assert torch_cuda["cudnn"] == cudnn_number(*locked(image, "cudnn"))
    assert "/nvidia/" in torch_cuda["files"]["cudnn"]


@pytest.mark.when(framework="pytorch", version=">=2.0", device="cu*")
def test_torch_has_loaded_the_locked_nccl(image: Image, torch_cuda: Mapping[str, Any]) -> None:
    """Asked of PyTorch and of the file in its memory: they differ where another NCCL is found first."""
    major, minor, patch = locked(image, "nccl")
    assert torch_cuda["nccl"] == [major, minor, patch]
    assert torch_cuda["loaded"]["nccl"] == major * 10000 + minor * 100 + patch
    assert "/nvidia/" in torch_cuda["files"]["nccl"]


@pytest.mark.when(framework="pytorch", version=">=2.0", device="cu*")
def test_triton_compiles_a_kernel_with_its_ptxas_and_libdevice(image: Image) -> None:
    assert run_script(image, "triton_kernel.py") == "b'\\x7fELF'\n"


@pytest.mark.when(framework="pytorch", version=">=2.0", device="cu*")
def test_triton_compiles_its_driver_module_with_the_images_gcc(image: Image) -> None:
    assert run_script(image, "triton_driver.py") == "True\n"


@pytest.fixture(scope="module")
def tensorflow_cuda(image: Image) -> Mapping[str, Any]:
    """Of libraries that TensorFlow found by itself: without one of them it refuses every GPU."""
    return dict(json.loads(run_script(image, "tensorflow_cuda.py")))


@pytest.mark.when(framework="tensorflow", device="cu*")
def test_tensorflow_finds_all_cuda_libraries_and_the_cudnn_that_is_locked(
    image: Image, tensorflow_cuda: Mapping[str, Any]
) -> None:
    assert tensorflow_cuda["cudnn"] == cudnn_number(*locked(image, "cudnn"))
    assert all("/nvidia/" in path for path in tensorflow_cuda["files"])


# Not 2.6: CUDA 11's runtime asks the driver for its own version, and NCCL is inside TensorFlow.
@pytest.mark.when(framework="tensorflow", version=">=2.21", device="cu*")
def test_tensorflow_finds_the_cuda_runtime_and_the_nccl_that_are_locked(
    image: Image, tensorflow_cuda: Mapping[str, Any]
) -> None:
    (runtime, minor, *_), nccl = (locked(image, name) for name in ("cuda-runtime", "nccl"))
    assert tensorflow_cuda["cudart"] == runtime * 1000 + minor * 10
    assert tensorflow_cuda["nccl"] == nccl[0] * 10000 + nccl[1] * 100 + nccl[2]


@pytest.mark.when(framework="tensorflow", device="cu*")
def test_tensorflow_was_built_for_the_cuda_of_the_image_or_an_older_minor_version(
    image: Image, tensorflow_cuda: Mapping[str, Any]
) -> None:
    built, found = tensorflow_cuda["build"], image.variant.settings.device.removeprefix("cu")
    built_major, built_minor, *_ = (int(part) for part in built["cuda_version"].split("."))
    assert (int(found[:-1]), int(found[-1])) >= (built_major, built_minor)
    assert int(found[:-1]) == built_major
    assert built["cudnn_version"] == str(locked(image, "cudnn")[0])


@pytest.mark.when(framework="tensorflow", device="cu*")
def test_tensorflows_xla_finds_ptxas_and_libdevice_of_the_lock(tensorflow_cuda: Mapping[str, Any]) -> None:
    for folders in (tensorflow_cuda["toolkits"], tensorflow_cuda["libdevice"]):
        assert [Path(folder).name for folder in folders] == ["cuda_nvcc"]


@pytest.mark.when(framework="tensorflow")
def test_tensorflow_lists_xla_devices(image: Image) -> None:
    # In a container of its own: Keras writes its settings there, and other tests ask what the image holds.
    flags = ("--env", "TF_XLA_FLAGS=--tf_xla_enable_xla_devices")
    done = run_once(image.ref, "python", "-c", LIST_DEVICES, options=flags)
    assert "XLA_CPU" in done.stdout.split(), done.stderr


@pytest.mark.when(packages={"torch-xla": "*"})
def test_torch_xla_computes_on_the_cpu(image: Image) -> None:
    assert float(run_script(image, "torch_xla_cpu.py", "PJRT_DEVICE=CPU")) < TOLERANCE


@pytest.mark.when(packages={"jax-cuda12-pjrt": "*"})
def test_xla_compiles_for_a_gpu_with_its_ptxas_and_libdevice(image: Image) -> None:
    assert run_script(image, "xla_gpu_compile.py") == "compiled\n"


@pytest.mark.when(packages={"jax-cuda12-pjrt": "*"})
def test_torch_xla_loads_the_cuda_plug_in_which_misses_nothing_but_a_gpu(image: Image) -> None:
    assert "No visible GPU devices" in run_script(image, "torch_xla_cuda.py", "PJRT_DEVICE=CUDA")


@pytest.mark.when(packages={"jax-cuda12-pjrt": "*"})
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ((), {"node_id": 0, "num_nodes": 1, "coordinator": False}),
        (
            ("RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"),
            {"node_id": 3, "num_nodes": 4, "coordinator": True, "visible_devices": [1]},
        ),
    ],
)
def test_torch_xla_is_given_the_ranks_of_torchrun_and_one_gpu_of_several_processes(
    image: Image, variables: tuple[str, ...], expected: Mapping[str, Any]
) -> None:
    options = json.loads(run_script(image, "torch_xla_options.py", "PJRT_DEVICE=CUDA", *variables))
    assert {name: value for name, value in options.items() if name != "platform_name"} == expected


HOROVOD = "import horovod.{0} as hvd; hvd.init(); print(hvd.nccl_built(), hvd.gloo_built(), hvd.mpi_built())"


@pytest.mark.when(packages={"horovod": "*"}, device="cu1[23]*")
def test_horovod_is_built_with_the_locked_nccl_and_starts_without_a_gpu(image: Image) -> None:
    """Where NCCL is missing, a tensor on a GPU makes Horovod abort."""
    module = {"pytorch": "torch"}.get(image.framework, image.framework)
    done = run_once(image.ref, "python", "-c", HOROVOD.format(module), options=("--network", "none"))
    major, minor, patch = locked(image, "nccl")
    assert done.stdout.split() == [str(major * 10000 + minor * 100 + patch), "True", "True"], done.stderr


@pytest.mark.when(packages={"horovod": "*"}, device="cu1[01]*")
def test_horovod_that_cannot_have_nccl_is_refused_on_gpus_with_the_reason(image: Image) -> None:
    variables = ("--env", "DLC_NUM_GPUS=1", "--env", "DLC_STRATEGY=horovod", "--env", "SAGEMAKER_PROGRAM=train.py")
    launcher = "python3 -I -S /opt/dlc/entrypoint/launcher.py train"
    start = f"mkdir -p /opt/ml/code && touch /opt/ml/code/train.py && exec {launcher}"
    done = run_once(image.ref, "sh", "-c", start, options=variables)
    assert done.returncode == 78
    assert "its kernels can be compiled for CUDA 12 and 13 only" in done.stderr + done.stdout
