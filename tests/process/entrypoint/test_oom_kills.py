"""oom with processes that the kernel kills for lack of memory, and with one that somebody else killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import Script, run

V1_OWN = Path("/sys/fs/cgroup/memory")
V2_OWN = Path("/sys/fs/cgroup")


@pytest.fixture
def small_memory() -> Iterator[str]:
    """Python source that moves a process into a new cgroup of 60 MB."""
    name = f"dlc-test-{os.getpid()}"
    version_1 = (V1_OWN / "memory.limit_in_bytes").exists()
    own = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if (":memory:" in line) == version_1)
    parent = (V1_OWN if version_1 else V2_OWN) / own.rpartition(":")[2].lstrip("/")
    if not parent.is_dir():
        # A privileged container with the host's cgroup namespace: the launcher cannot find its own group either.
        pytest.skip(f"/proc/self/cgroup names a memory cgroup that is not mounted here: {parent}")
    group = parent / name
    try:
        group.mkdir()
        for limit in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max", "memory.swap.max"):
            if (group / limit).exists():
                (group / limit).write_text("0" if limit == "memory.swap.max" else "60000000")
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield f"open('{group}/cgroup.procs', 'w').write('%d' % os.getpid())"
    group.rmdir()


def test_a_rank_the_kernel_kills_for_lack_of_memory_is_reported_as_that(tmp_path: Path, small_memory: str) -> None:
    eats = "blocks = []\nwhile True: blocks.append(bytearray(b'x' * 1_000_000))"
    done = run(tmp_path, Script("", argv=(sys.executable, "-c", eats)), before=small_memory)
    assert done.exit_code == 128 + 9
    assert done.failure["cause"].startswith("worker rank 0 on algo-1 was ended by SIGKILL: out of memory")
    assert "limit is 0.06 GiB" in done.failure["cause"]


def test_a_sigkill_from_elsewhere_is_not_called_out_of_memory(tmp_path: Path) -> None:
    done = run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert done.failure["cause"] == "worker rank 0 on algo-1 was ended by SIGKILL"
