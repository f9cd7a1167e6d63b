"""The memory of a profile: the process at its highest, its children, no pages of files; the limit of the container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlc_runtime.profile.memory import container_limit

SOURCES = Path(__file__).parents[4] / "src"
BIG = 200 << 20
PROGRAM = f"""
import json, os, sys
from dlc_runtime.profile.memory import Memory, host_peak
from dlc_runtime.profile.session import Framework
memory = Memory(Framework())
first = host_peak()
held = bytearray(b"x" * {BIG // 2})
held = None
before = memory.as_json()["host"]
memory.mark()
after = memory.as_json()["host"]
reading, writing = os.pipe()
ready, say = os.pipe()
if os.fork() == 0:
    held = bytearray(b"x" * {BIG})
    os.write(say, b"x")
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
os.read(ready, 1)
child = memory.as_json()["host"]
os.write(writing, b"x")
print(json.dumps([first, before, after, child]))
"""


def test_the_peak_is_kept_and_can_be_looked_for_again_and_children_count() -> None:
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    first, before, after, child = json.loads(done.stdout)
    assert before["peak"] >= first + BIG // 2
    assert after["peak"] >= before["peak"]
    assert after["steady"] < before["steady"] - BIG // 4  # what was freed before is not in it
    assert child["steady"] >= after["steady"] + BIG * 0.9


@pytest.mark.parametrize(
    ("path", "text", "limit"),
    [
        ("memory.max", "1048576\n", 1048576),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "1048576\n", 1048576),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
    ],
)
def test_the_containers_limit_is_read_in_both_versions(path: str, text: str, limit: int | None, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert container_limit(str(tmp_path)) == limit
    assert container_limit(str(tmp_path / "none")) is None
