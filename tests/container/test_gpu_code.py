"""`dlc list --gpu` on a CUDA image says what its framework says of itself."""

from __future__ import annotations

import pytest

from dlc.inspection.gpu import read_gpu_code
from harness.container import Container
from harness.engine import connect
from harness.images import Image

pytestmark = [pytest.mark.container, pytest.mark.when(device="cu*")]


@pytest.mark.when(framework="pytorch", version=">=1.13")  # in 1.10 the library has cuDNN's and cuBLAS's code in it
def test_pytorch_s_own_list_is_what_its_libraries_hold(image: Image, container: Container) -> None:
    flags = container.python("import torch; print(torch._C._cuda_getArchFlags())").split()
    machine = {int(flag.removeprefix("sm_").rstrip("af")) for flag in flags if flag.startswith("sm_")}
    code = read_gpu_code(connect(), image.ref)
    assert machine
    assert machine == set(code.machine)


@pytest.mark.when(framework="tensorflow")
def test_tensorflow_s_own_list_is_what_its_libraries_hold(image: Image, container: Container) -> None:
    asked = "import tensorflow as tf; print(*tf.sysconfig.get_build_info()['cuda_compute_capabilities'])"
    said = {tuple(word.split("_")) for word in container.python(asked, seconds=120).split()}
    code = read_gpu_code(connect(), image.ref)
    assert said
    assert {int(number) for kind, number in said if kind == "sm"} <= set(code.machine)
    assert {int(number) for kind, number in said if kind == "compute"} <= set(code.ptx)
