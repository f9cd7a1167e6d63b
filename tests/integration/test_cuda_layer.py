"""CUDA's libraries are one layer, stored once for all frameworks that take the same ones: builds of small packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engine import docker
from harness.toy import changed_ref, dlc, make_checkout

pytestmark = pytest.mark.integration

CUDA = "nvidia-cuda-runtime-cu12==12.8.90"


def with_framework(packages: str) -> list[str]:
    """The words of `--set` for an image of these packages and a library of CUDA."""
    return ["--set", "device=cu128", "--set", f"packages.framework=[{packages}, {CUDA}]"]


def layers(root: Path, words: list[str]) -> list[str]:
    """Lock and build the image, and give the digests of its layers, lowest first."""
    for verb in ("lock", "build"):
        done = dlc(root, verb, "toy-*", *words)
        assert done.returncode == 0, done.stderr
    [image] = json.loads(docker("image", "inspect", changed_ref(root, *words[1::2])).stdout)
    return list(image["RootFS"]["Layers"])


def test_two_frameworks_for_one_cuda_share_the_layer_of_its_libraries(engine: None, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    make_checkout(root, "dlc-toy-cuda")
    two = [with_framework(packages) for packages in ("six==1.17.0", "six==1.17.0, toml==0.10.2")]
    refs = [changed_ref(root, *words[1::2]) for words in two]
    try:
        one, other = (layers(root, words) for words in two)
        folder = "/opt/venv/lib/python3.11/site-packages/nvidia/cuda_runtime/lib"
        listing = docker("run", "--rm", "--entrypoint", "ls", refs[0], folder).stdout
    finally:
        docker("image", "rm", "--force", *refs, check=False)
    assert "libcudart.so.12" in listing
    shared = [first == second for first, second in zip(one, other, strict=True)]
    # Nothing but folders, CUDA's libraries, the framework.
    assert shared[:3] == [True, True, False]
