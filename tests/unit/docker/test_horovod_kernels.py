"""What Horovod's GPU kernels are compiled with: every file by its hash, and clang's words for CUDA 13's `fatbinary`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlc.core.checkout import find_root

SCRIPTS = find_root(Path(__file__).parent) / "docker/scripts/horovod"


@pytest.mark.parametrize("name", ["cuda12.txt", "cuda13.txt"])
def test_every_tool_has_a_version_and_a_hash(name: str) -> None:
    lines = [line for line in (SCRIPTS / name).read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line)] == []
