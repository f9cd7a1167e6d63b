"""An image takes NVIDIA's newer user library by its hash, and puts it where the container runtime looks.

NVIDIA's own package is not fetched: a small one with its names stands for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.errors import BuildError
from harness import efa_installer, toy
from harness.engine import docker

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-cuda-compat"
DEVICE = "device=cu128"
LIBRARY = "/usr/local/cuda-12.9/compat/libcuda.so.1"


@pytest.fixture(scope="module")
def checkout(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with toy.checkout_for(DEVICE, tmp_path_factory.mktemp("cuda-compat"), REPOSITORY) as root:
        yield root


def settings(folder: Path, name: str) -> list[str]:
    """Those of an image with the package of this name."""
    package = folder / f"{name}.deb"
    package.write_bytes(efa_installer.package(name, {LIBRARY: f"{efa_installer.LIBRARIES}/libz.so.1"}))
    sha256 = hashlib.sha256(package.read_bytes()).hexdigest()
    return [DEVICE, f"cuda_compat.url={package.as_uri()}", f"cuda_compat.sha256={sha256}"]


def test_the_newer_user_library_is_where_the_container_runtime_looks(checkout: Path, tmp_path: Path) -> None:
    sets = settings(tmp_path, "cuda-compat-12-9")
    built = toy.dlc(checkout, "build", "toy-*", *(word for each in sets for word in ("--set", each)))
    assert built.returncode == 0, built.stderr
    ref = toy.changed_ref(checkout, *sets)
    shell = "readlink /usr/local/cuda/compat; dpkg-query --show --showformat '${Package}' cuda-compat-12-9"
    answer = docker("run", "--rm", "--entrypoint", "sh", ref, "-c", shell).stdout
    assert answer == f"{Path(LIBRARY).parent}\ncuda-compat-12-9"
    environment = docker("image", "inspect", "--format", "{{.Config.Env}}", ref).stdout
    assert "NVIDIA_REQUIRE_CUDA=cuda>=11.0 " in environment


def test_a_user_library_older_than_the_image_is_refused(checkout: Path, tmp_path: Path) -> None:
    sets = settings(tmp_path, "cuda-compat-11-8")
    refused = toy.dlc(checkout, "build", "toy-*", *(word for each in sets for word in ("--set", each)))
    assert refused.returncode == BuildError.exit_code
    assert "expected NVIDIA's package cuda-compat-12-* or a later one, found cuda-compat-11-8" in refused.stderr
