"""oom: kills for lack of memory are read from cgroup v1 and v2, and named in the failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.supervision import oom
from launch.supervision.oom import Memory


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


V2_EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
V1_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"


def test_version_2_in_a_container_with_its_own_namespace(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.events": V2_EVENTS,
            "sys/fs/cgroup/memory.max": "1073741824\n",
        },
    )
    assert oom.read_memory(root) == Memory(2, 1 << 30)


def test_version_2_below_a_slice_without_a_limit(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/system.slice/job.scope"
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/system.slice/job.scope\n",
            f"{folder}/memory.events": V2_EVENTS,
            f"{folder}/memory.max": "max\n",
        },
    )
    assert oom.read_memory(root) == Memory(2, None)


def test_version_1_in_a_container_whose_path_is_the_hosts(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/memory"
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
            f"{folder}/memory.oom_control": V1_CONTROL,
            f"{folder}/memory.limit_in_bytes": "2147483648\n",
        },
    )
    assert oom.read_memory(root) == Memory(5, 2 << 30)


def test_version_1_says_no_limit_with_a_huge_number(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/memory"
    root = write(
        tmp_path,
        {f"{folder}/memory.oom_control": V1_CONTROL, f"{folder}/memory.limit_in_bytes": "9223372036854771712\n"},
    )
    assert oom.read_memory(root) == Memory(5, None)


@pytest.mark.parametrize("files", [{}, {"proc/self/cgroup": ""}, {"sys/fs/cgroup/memory.events": "oom_kill x\n"}])
def test_no_cgroup_to_be_read_is_no_error(tmp_path: Path, files: dict[str, str]) -> None:
    assert oom.read_memory(write(tmp_path, files)) is None


def test_words_name_the_limit_and_the_remedy() -> None:
    text = oom.explain_kill(Memory(1, 1 << 30), Memory(3, 1 << 30))
    assert "the kernel killed 2 processes" in text
    assert "1.00 GiB" in text
    assert "smaller batch" in text


@pytest.mark.parametrize(("before", "now"), [(None, None), (Memory(1, None), Memory(1, None)), (None, Memory(3, None))])
def test_nothing_new_says_nothing(before: Memory | None, now: Memory | None) -> None:
    assert oom.explain_kill(before, now) == ""
