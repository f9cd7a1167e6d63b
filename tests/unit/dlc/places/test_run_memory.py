"""The limit of memory that hosts of a job get if nobody said one: a share of what is free, and never none by chance."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from dlc.engine.docker_client import Engine
from dlc.job.limits import count_bytes
from dlc.job.words import read_words
from dlc.places.local.job import Job, make_job
from dlc.places.local.lifecycle import ContainerState
from dlc.places.local.memory import explain_memory, limit_memory, read_free_bytes

GIB = 1 << 30
ENGINE = Engine("unix:///run/it.sock", "DOCKER_HOST", "26.1", containerd_store=False, memory=24 * GIB)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("")
    return path


def make(script: Path, hosts: int = 1, groups: tuple[str, ...] = (), memory: tuple[str, ...] = ()) -> Job:
    words = argparse.Namespace(image="an-image", script=str(script), hosts=str(hosts), group=groups, memory=memory)
    return make_job(read_words(words).spec.place("job-1", script.parent / "results", str), {}, "t")


def sizes(job: Job) -> list[int]:
    return [count_bytes(job.group_of(host).memory or "0") for host in job.hosts]


def test_all_hosts_together_get_no_more_than_is_free(script: Path) -> None:
    for hosts in (1, 2, 5):
        job, line = limit_memory(make(script, hosts), 20 * GIB, 24 * GIB)
        assert sum(sizes(job)) <= 0.9 * 20 * GIB
        assert min(sizes(job)) > 0.89 * 20 * GIB / hosts
        assert f"each host gets {job.groups[0].memory} of memory at most, of 20480m that are free" in line
        assert "--memory" in line


def test_a_busy_machine_ends_no_job_that_fits(script: Path) -> None:
    job, _ = limit_memory(make(script, 4), GIB, 24 * GIB)
    assert sizes(job) == [2 * GIB] * 4
    assert sizes(limit_memory(make(script), GIB, 2 * GIB)[0]) == [GIB]


def test_a_limit_that_was_said_stays_and_so_does_none_that_was_said(script: Path) -> None:
    for memory in (("4g",), ("0",)):
        asked = make(script, memory=memory)
        assert limit_memory(asked, 20 * GIB, 24 * GIB) == (asked, "")
    job, line = limit_memory(make(script, 1, ("a=1", "b=2"), ("a=8g",)), 20 * GIB, 24 * GIB)
    assert sizes(job)[0] == 8 * GIB
    assert sum(sizes(job)) <= 20 * GIB
    assert line.startswith("each host of b gets ")


def test_what_nobody_knows_is_no_limit(script: Path) -> None:
    job = make(script)
    assert limit_memory(job, 0, 0) == (job, "")


def test_what_is_free_is_asked_where_the_engine_is(tmp_path: Path) -> None:
    source = tmp_path / "meminfo"
    source.write_text(
        f"MemTotal:       {24 << 20} kB\nMemFree:  1 kB\nMemAvailable:   {9 << 20} kB\nHugePages_Total: 0\n"
    )
    assert read_free_bytes(ENGINE, source) == 9 * GIB
    assert read_free_bytes(replace(ENGINE, memory=64 * GIB), source) == 64 * GIB
    assert read_free_bytes(ENGINE, tmp_path / "none") == 24 * GIB
    assert read_free_bytes(replace(ENGINE, memory=0), source) == 0


def test_an_end_for_want_of_memory_is_named_with_its_limit(script: Path) -> None:
    job, _ = limit_memory(make(script), 20 * GIB, 24 * GIB)
    ended = ContainerState(started=True, running=False, pid=0, exit_code=137, ended="", out_of_memory=True)
    said = explain_memory(job, job.hosts[0], ended)
    assert said == f"algo-1 ran out of memory: it had {job.groups[0].memory}; --memory SIZE gives it more"
    assert explain_memory(job, job.hosts[0], replace(ended, out_of_memory=False)) == ""
