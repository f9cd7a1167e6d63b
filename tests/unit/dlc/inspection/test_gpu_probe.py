"""`dlc list --gpu`: for which GPUs an image holds code, read from its binaries."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlc.inspection import gpu, gpu_probe
from dlc.inspection.gpu import GpuCode

PTX, MACHINE = 1, 2
LINE_TABLE = 4  # an entry that is no code


def container(found: Sequence[tuple[int, int]], code: bytes = b"\x50" * 21) -> bytes:
    """A fatbin container with an entry of each kind and capability, each with 64 bytes of header."""
    body = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(code), 0, 0, 0, 0, capability).ljust(64, b"\0") + code
        for kind, capability in found
    )
    return struct.pack("<IHHQ", gpu_probe.MAGIC, 1, 16, len(body)) + body


def elf(sections: dict[bytes, bytes]) -> bytes:
    """A 64-bit ELF file of these sections and the one of their names."""
    names = b"\0" + b"".join(name + b"\0" for name in [*sections, b".shstrtab"])
    data, headers = b"\0" * 64, [b"\0" * 64]
    for name, content in [*sections.items(), (b".shstrtab", names)]:
        data = data.ljust((len(data) + 15) // 16 * 16, b"\0")
        headers.append(
            struct.pack("<IIQQQQIIQQ", names.index(name + b"\0"), 1, 0, 0, len(data), len(content), 0, 0, 8, 0)
        )
        data += content
    count = len(headers)
    header = b"\x7fELF\x02\x01\x01".ljust(0x28, b"\0")
    header += struct.pack("<QIHHHHHH", len(data), 0, 64, 0, 0, 64, count, count - 1)
    return header + data[64:] + b"".join(headers)


def test_every_container_of_the_framework_s_libraries_is_read(tmp_path: Path) -> None:
    library = tmp_path / "torch/lib/libtorch_cuda.so"
    library.parent.mkdir(parents=True)
    first, second = container([(MACHINE, 75), (MACHINE, 80)]), container([(MACHINE, 90), (PTX, 90), (LINE_TABLE, 120)])
    padding = b"\0" * (-len(first) % 8 + 8)
    library.write_bytes(elf({b".text": b"\x90" * 33, gpu_probe.SECTION: first + padding + second}))
    assert gpu_probe.capabilities(tmp_path) == {"machine": [75, 80, 90], "ptx": [90], "cudnn": []}


def test_a_capability_that_only_few_kernels_are_compiled_for_is_none_of_the_image(tmp_path: Path) -> None:
    """As linear algebra in PyTorch 2.9, which holds code for 5.0: no other kernel would run there."""
    folder = tmp_path / "torch/lib"
    folder.mkdir(parents=True)
    all_kernels = b"".join(container([(MACHINE, 70), (MACHINE, 90)], b"\x50" * 24) for _ in range(5))
    (folder / "libtorch_cuda.so").write_bytes(elf({gpu_probe.SECTION: all_kernels}))
    few = b"".join(container([(MACHINE, 50), (MACHINE, 70), (PTX, 90)], b"\x50" * 24) for _ in range(2))
    (folder / "libtorch_cuda_linalg.so").write_bytes(elf({gpu_probe.SECTION: few}))
    assert gpu_probe.capabilities(tmp_path) == {"machine": [70, 90], "ptx": [], "cudnn": []}


def test_a_library_without_the_section_holds_no_code(tmp_path: Path) -> None:
    library = tmp_path / "tensorflow/libtensorflow_cc.so.2"
    library.parent.mkdir(parents=True)
    library.write_bytes(elf({b".text": container([(MACHINE, 70)])}))
    assert gpu_probe.capabilities(tmp_path) == {"machine": [], "ptx": [], "cudnn": []}


def test_a_gpu_older_than_cudnn_s_code_is_not_supported(tmp_path: Path) -> None:
    """As V100 and cuDNN 9.11: TensorFlow 2.21 holds code for it, and could compute no convolution."""
    for path, found in (
        ("tensorflow/libtensorflow_cc.so.2", [(MACHINE, 60), (MACHINE, 70), (MACHINE, 80)]),
        ("nvidia/cudnn/lib/libcudnn_ops.so.9", [(MACHINE, 80), (MACHINE, 75), (PTX, 121)]),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(elf({gpu_probe.SECTION: container(found)}))
    probed = gpu_probe.capabilities(tmp_path)
    code = GpuCode(**{kind: tuple(values) for kind, values in probed.items()})
    assert code == GpuCode(machine=(60, 70, 80), ptx=(), cudnn=(75, 80))
    assert [code.support(capability) for capability in (60, 70, 75, 80)] == ["no", "no", "yes", "yes"]
    assert gpu.make_gpu_row("image", code)["cuDNN"] == "from 7.5"


@pytest.mark.parametrize(
    ("capability", "answer"),
    [(70, "no"), (75, "yes"), (80, "yes"), (86, "yes"), (89, "yes"), (90, "PTX"), (120, "PTX")],
    ids=["older", "own", "own of another major", "later minor", "last minor", "next major", "any later major"],
)
def test_machine_code_runs_within_its_major_and_ptx_on_all_later_ones(capability: int, answer: str) -> None:
    assert GpuCode(machine=(75, 80), ptx=(80,)).support(capability) == answer


def test_machine_code_runs_on_no_earlier_minor_and_no_other_major() -> None:
    code = GpuCode(machine=(86,), ptx=())
    assert [code.support(capability) for capability in (80, 86, 89, 90)] == ["no", "yes", "yes", "no"]


def test_a_row_names_every_gpu_and_an_image_that_is_not_built_says_so() -> None:
    row = gpu.make_gpu_row("image", GpuCode(machine=(75, 80), ptx=(80,)))
    assert (row["machine code"], row["ptx"]) == ("7.5,8.0", "8.0")
    assert (row["V100"], row["T4"], row["H100"]) == ("no", "yes", "PTX")
    assert gpu.make_gpu_row("image", None)["machine code"] == "not built"
    assert list(gpu.make_gpu_row("image", None)) == list(row)
