"""Runs in an image; prints, as JSON, for which GPUs its framework and cuDNN hold code. Standard library, Python 3.9.

CUDA code lies in the ELF section `.nv_fatbin`: containers of entries, of which each is machine code (for one compute
capability, and later minor ones of the same major) or PTX (the driver compiles it, for that capability and all later).
The headers are those of CUDA's tool fatbinary; the code behind them may be compressed and is not looked at.
"""

from __future__ import annotations

import json
import mmap
import struct
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SECTION = b".nv_fatbin"
MAGIC = 0xBA55ED50
# Magic, version, bytes of this header, bytes of all entries.
CONTAINER = struct.Struct("<IHHQ")
# Kind, version, bytes of this header, bytes of the code, ..., capability as 10 * major + minor.
ENTRY = struct.Struct("<HHIQIIHHI")
KINDS = {1: "ptx", 2: "machine"}
# A GPU is supported if most of the framework's code is for it: PyTorch 2.9 has kernels of linear algebra for
# capability 5.0, and no others.
SHARE = 0.5
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
FILES = (
    "torch/lib/libtorch_cuda*.so",
    "tensorflow/libtensorflow_cc.so.*",
    "tensorflow/python/_pywrap_tensorflow_internal.so",
)
# What every operation of cuDNN needs: version 8's name and version 9's.
CUDNN = ("nvidia/cudnn/lib/libcudnn_ops_infer.so.8", "nvidia/cudnn/lib/libcudnn_ops.so.9")


def section(data: mmap.mmap, name: bytes) -> tuple[int, int]:
    """Return offset and bytes of a section of a 64-bit little-endian ELF file; (0, 0) if it has none of that name."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [SECTION_HEADER.unpack_from(data, table + size * index) for index in range(count)]
    for header in headers:
        start = headers[names][4] + header[0]
        if data[start : start + len(name) + 1] == name + b"\0":
            return header[4], header[5]
    return 0, 0


def entries(data: mmap.mmap, start: int, length: int) -> Iterator[tuple[str, int]]:
    """Yield kind and capability of each entry of each container of a section. Zeros may stand between containers."""
    position, end = start, start + length
    while position + CONTAINER.size <= end:
        magic, _, header, size = CONTAINER.unpack_from(data, position)
        if magic != MAGIC:
            position += 8
            continue
        position, stop = position + header, position + header + size
        while position + ENTRY.size <= stop:
            kind, _, own, code, *_, capability = ENTRY.unpack_from(data, position)
            if kind in KINDS:
                yield KINDS[kind], capability
            position += max(own + code, ENTRY.size)
        position = (stop + 7) // 8 * 8


def counted(packages: Path, patterns: Iterable[str]) -> Counter[tuple[str, int]]:
    """Count the entries of each kind and capability that these libraries below site-packages hold."""
    found: Counter[tuple[str, int]] = Counter()
    for path in [path for pattern in patterns for path in packages.glob(pattern)]:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found.update(entries(data, *section(data, SECTION)))
    return found


def capabilities(packages: Path) -> dict[str, list[int]]:
    """Map each kind to capabilities of the framework's libraries, and `cudnn` to those of cuDNN's machine code.

    All are empty for an image without CUDA, the last one if the framework holds cuDNN itself.
    """
    cudnn = sorted(capability for kind, capability in counted(packages, CUDNN) if kind == "machine")
    return {**common(counted(packages, FILES)), "cudnn": cudnn}


def common(found: Mapping[tuple[str, int], int]) -> dict[str, list[int]]:
    """Map each kind to sorted capabilities, without those of single kernels."""
    enough = SHARE * max(found.values(), default=0)
    most = [each for each, count in found.items() if count >= enough]
    return {kind: sorted(capability for own, capability in most if own == kind) for kind in KINDS.values()}


if __name__ == "__main__":
    print(json.dumps(capabilities(Path(sysconfig.get_paths()["purelib"]))))
