"""What the hosts of a job ask for is compared with what the engine says of its host, before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import UsageError
from dlc.engine import connection
from dlc.engine.docker_client import Engine
from dlc.job.limits import count_bytes
from dlc.places.local.job import Group, Job
from dlc.places.local.run import require_limits

SMALL = {"cpus": 4, "memory": 8 << 30, "offers_gpus": False}


def engine(**facts: Any) -> Engine:
    return Engine("unix:///here.sock", "DOCKER_HOST", "28", containerd_store=False, **facts)


def job(*groups: Group) -> Job:
    return Job("j", "image", Path("/results"), groups, ())


def one(**limits: str) -> Job:
    return job(Group("homogeneousCluster", ("algo-1",), **limits))


@pytest.mark.parametrize("limits", [{}, {"cpus": "4"}, {"cpus": ".5"}, {"memory": "8g"}, {"memory": "8192MiB"}])
def test_what_the_host_has_may_be_asked_for(limits: dict[str, str]) -> None:
    require_limits(one(**limits), engine(**SMALL))


@pytest.mark.parametrize(
    ("limits", "said", "remedy"),
    [
        ({"cpus": "4.5"}, "--cpus 4.5: expected 4 at most", "--cpus 4, or less"),
        ({"memory": "9g"}, "--memory 9g: expected 8192m at most", "--memory 8192m, or less"),
        ({"memory": "1t"}, "--memory 1t: expected 8192m at most", "--memory 8192m"),
        ({"gpus": "1"}, "--gpus 1: expected an engine that gives GPUs to containers, found neither", "nvidia-ctk"),
    ],
)
def test_what_the_host_has_not_is_one_error_with_what_it_has(limits: dict[str, str], said: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_limits(one(**limits), engine(**SMALL))
    assert caught.value.message.startswith(said)
    assert remedy in caught.value.remedy


def test_the_group_that_asks_for_too_much_is_named_as_it_is_typed() -> None:
    two = job(Group("data", ("algo-1",), cpus="2"), Group("dnn", ("algo-2",), cpus="8"))
    with pytest.raises(UsageError) as caught:
        require_limits(two, engine(**SMALL))
    assert caught.value.message.startswith("--cpus dnn=8: expected 4 at most")
    assert caught.value.remedy.startswith("--cpus dnn=4, or less")


def test_an_engine_that_says_nothing_of_its_host_is_not_judged_by_it() -> None:
    require_limits(one(cpus="4096", memory="4096t", gpus="all"), engine())


@pytest.mark.parametrize(
    ("size", "number"),
    [("0", 0), ("7", 7), ("7b", 7), ("1k", 1024), ("1KB", 1024), ("1.5m", 3 << 19), ("2GiB", 2 << 30), ("1t", 1 << 40)],
)
def test_a_size_is_counted_as_docker_counts_it(size: str, number: int) -> None:
    assert count_bytes(size) == number


@pytest.mark.parametrize(
    ("info", "offers"),
    [
        ({}, True),
        ({"Runtimes": {"runc": {}}}, False),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, True),
        ({"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}, True),
        ({"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"Source": "cdi", "ID": "vendor.com/net=0"}]}, False),
        ({"Runtimes": None}, False),
    ],
)
def test_an_engine_tells_by_its_runtimes_and_devices_whether_it_gives_gpus(
    info: dict[str, Any], offers: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = connection._parse_info({"ServerVersion": "28", "NCPU": 4, "MemTotal": 8 << 30, **info}, None, "context")
    assert (found.cpus, found.memory, found.offers_gpus) == (4, 8 << 30, offers)


@pytest.mark.parametrize("program", connection.TOOLKIT)
def test_where_nvidias_toolkit_is_installed_the_engine_is_asked_though_it_says_nothing_of_gpus(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert connection._parse_info({"ServerVersion": "28", "Runtimes": {"runc": {}}}, None, "context").offers_gpus
