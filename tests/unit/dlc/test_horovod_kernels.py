"""What Horovod's GPU kernels are compiled with: every file by its hash, and clang's words for CUDA 13's `fatbinary`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dlc.core.checkout import find_root

SCRIPTS = find_root(Path(__file__).parent) / "docker/scripts/horovod"
# As clang 19 calls it.
CLANG = "-64 --create out.fatbin --image=profile=sm_90,file=a.o --image=profile=compute_90,file=a.s"
EXPECTED = "--compress=false -64 --create out.fatbin --image3=kind=elf,sm=90,file=a.o --image3=kind=ptx,sm=90,file=a.s"


def test_code_for_gpus_is_joined_uncompressed_as_older_drivers_need_it() -> None:
    argv = [SCRIPTS / "fatbinary.sh", *CLANG.split()]
    done = subprocess.run(argv, env={"FATBINARY": "/bin/echo"}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == EXPECTED.split()


@pytest.mark.parametrize("name", ["cuda12.txt", "cuda13.txt"])
def test_every_tool_has_a_version_and_a_hash(name: str) -> None:
    lines = [line for line in (SCRIPTS / name).read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line)] == []
