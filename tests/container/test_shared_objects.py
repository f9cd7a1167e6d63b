"""Shared objects of each image: every library is there once, and the dynamic loader finds what each of them needs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from harness.container import Container

pytestmark = pytest.mark.container

SCRIPT = Path(__file__).parent / "scripts/shared_objects.py"
# auditwheel names a library after its content, so equal names are equal bytes and the loader takes either for both.
NAMED_BY_CONTENT = re.compile(r"-[0-9a-f]{8}\.so")
# SONAMEs that may stand twice, and why.
TWICE: dict[str, str] = {
    "libgomp.so.1": "torch brings its own and Debian's g++ depends on another; a process takes the one loaded first",
    "libz.so.1": "torchvision asks for its own by a name that no other has; a process takes the one loaded first",
    "ld-linux-aarch64.so.1": "torchvision's libraries for arm64 ask for their own by a name that no other has",
    "libprrte.so.3": "Debian 13's libopenmpi40 holds the same file in two folders",
}
# (which files, as a glob; which names they may miss, as a pattern) -> why.
NOT_IN_THE_IMAGE: dict[tuple[str, str], str] = {
    ("*", r"libcuda\.so\.1|libnvidia-ml\.so\.1"): "NVIDIA's driver: the host's, mounted by its container runtime",
    ("*/_XLAC.*.so", r"lib(torch|c10).*"): "torch_xla imports torch first, whose libraries are loaded by then",
    ("*/torchvision/*.so", r"lib(torch|c10).*|libcudart\..*"): "torchvision imports torch first, which loads CUDA too",
    (
        "*/torchaudio/lib/*.so",
        r"lib(torch|c10|cudart|nvToolsExt).*",
    ): "torchaudio imports torch first, then its library",
    ("*/torchaudio/_torchaudio.so", r"lib(torch|c10|cudart).*"): "torchaudio 0.10 does the same",
    ("*/torchaudio/lib/*torchaudio_sox.so", r"libsox\.so"): "torchaudio 2.6 reads files with sox where it is there",
    ("*/torio/lib/*.so", r"lib(torch|torio|c10|cudart|av|sw).*"): "torchaudio 2.6 uses the FFmpeg that is there",
    ("*/torchaudio/lib/pybind11_prefixctc.so", r"libctc_prefix_decoder\.so"): "torchaudio loads it by its path, before",
    ("*/horovod/torch/mpi_lib_v2.*.so", r"lib(torch|c10).*"): "horovod.torch imports torch first",
    ("*/horovod/tensorflow/mpi_lib.*.so", r".*tensorflow.*"): "horovod.tensorflow imports tensorflow first",
    ("*/nvidia/cu13/lib/libcufile_rdma.so.1", r"libcufile\.so\.0"): "libcufile loads it, after itself",
    ("*/libtensorflow_io_gcs_filesystem.so", r"libtensorflow_framework\.so\.2"): "TensorFlow loads it, after itself",
}


@dataclass(frozen=True)
class SharedObjects:
    """SONAME -> paths that carry it; path -> names that the dynamic loader does not find for it; paths it refuses."""

    sonames: Mapping[str, Sequence[str]]
    missing: Mapping[str, Sequence[str]]
    refused: Sequence[str]


@pytest.fixture(scope="module")
def shared_objects(container: Container) -> SharedObjects:
    return SharedObjects(**json.loads(container.python(SCRIPT.read_text(), seconds=300)))


def test_no_library_stands_twice(shared_objects: SharedObjects) -> None:
    twice = {
        name: paths
        for name, paths in shared_objects.sonames.items()
        if len(paths) > 1 and name not in TWICE and not NAMED_BY_CONTENT.search(name)
    }
    assert not twice, json.dumps(twice, indent=1)


def test_every_cuda_library_is_there_in_one_version(shared_objects: SharedObjects) -> None:
    """libcublas.so.12 beside libcublas.so.13 would be CUDA twice, under two SONAMEs."""
    versions = defaultdict(set)
    nvidia = [name for name, paths in shared_objects.sonames.items() if any("/nvidia/" in path for path in paths)]
    stems = {name.partition(".so")[0] for name in nvidia}
    for name in shared_objects.sonames:
        stem = name.partition(".so")[0]
        if stem in stems:
            versions[stem].add(name)
    assert not {stem: names for stem, names in versions.items() if len(names) > 1}


def test_the_loader_takes_every_library(shared_objects: SharedObjects) -> None:
    """None was damaged on its way into the image."""
    assert list(shared_objects.refused) == []


def test_every_needed_library_is_found(shared_objects: SharedObjects) -> None:
    unexplained = [
        (path, name)
        for path, names in shared_objects.missing.items()
        for name in names
        if not any(fnmatch(path, files) and re.fullmatch(lacked, name) for files, lacked in NOT_IN_THE_IMAGE)
    ]
    assert unexplained == []


def test_the_script_sees_the_image(shared_objects: SharedObjects) -> None:
    """So that an empty answer is never taken for a good one."""
    assert len(shared_objects.sonames) > 100
    assert any(name.startswith(("libtorch_cpu.so", "libtensorflow_framework.so")) for name in shared_objects.sonames)
