"""Which data hosts a training rank asks, which share is its own, and what arguments are refused."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from dlc_runtime.dataservice import RemoteLoader
from dlc_runtime.dataservice import serve as served
from dlc_runtime.dataservice.client import config
from dlc_runtime.dataservice.client.config import Settings
from dlc_runtime.dataservice.errors import MissingPackageError, SettingError
from dlc_runtime.dataservice.schedule.assignment import Share
from dlc_runtime.dataservice.server import batch_source, serve
from dlc_runtime.dataservice.server.worker_status import StatusTable
from dlc_runtime.dataservice.wire import addresses


def job(host: str, groups: dict[str, list[str]], training: list[str]) -> dict[str, str]:
    listed = [{"instance_group_name": name, "hosts": hosts} for name, hosts in groups.items()]
    return {
        "SM_HOSTS": json.dumps([host for hosts in groups.values() for host in hosts]),
        "SM_CURRENT_HOST": host,
        "SM_RESOURCE_CONFIG": json.dumps({"instance_groups": listed}),
        "SM_DISTRIBUTION_INSTANCE_GROUPS": json.dumps(training),
    }


TWO = {"data_group": ["algo-3", "algo-1"], "dnn_group": ["algo-2", "algo-4"]}


def test_the_data_groups_hosts_are_the_servers() -> None:
    environ = job("algo-2", TWO, ["dnn_group"])
    assert list(config.find_servers(None, None, None, environ)) == ["algo-3:7800", "algo-1:7800"]
    assert list(config.find_servers(None, None, None, {**environ, "DLC_DATA_PORT": "9"})) == ["algo-3:9", "algo-1:9"]


def test_a_server_keeps_its_hosts_name_where_it_is_reached_at_an_address() -> None:
    environ = {**job("algo-2", TWO, ["dnn_group"]), "DLC_HOST_ADDRESSES": '{"algo-1": "10.0.0.1", "algo-3": "fd00::3"}'}
    expected = {"algo-3:7800": "[fd00::3]:7800", "algo-1:7800": "10.0.0.1:7800"}
    assert config.find_servers(None, None, None, environ) == expected


def test_under_another_name_the_only_group_that_does_not_train_serves() -> None:
    environ = job("g", {"cpu": ["c"], "gpu": ["g"]}, ["gpu"])
    assert config.find_servers(None, None, None, environ) == {"c:7800": "c:7800"}
    with pytest.raises(SettingError, match="which instance group serves"):
        config.find_servers(None, None, None, job("g", {"a": ["c"], "b": ["d"], "gpu": ["g"]}, ["gpu"]))


@pytest.mark.parametrize(
    ("asked", "found"),
    [("a", "a:5"), ("a:1", "a:1"), ("::1", "[::1]:5"), ("[::1]:1", "[::1]:1"), ("10.0.0.1", "10.0.0.1:5")],
)
def test_servers_may_be_named_with_and_without_a_port(asked: str, found: str) -> None:
    assert config.find_servers([asked], None, 5, {}) == {found: found}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, Share(3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Share(1, 2)),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4"}, Share(1, 4)),
        (job("algo-4", TWO, ["dnn_group"]), Share(1, 2)),
        ({}, Share(0, 1)),
    ],
)
def test_the_share_of_a_rank_is_what_its_starter_says_else_its_hosts_place(
    environ: dict[str, str], expected: Share
) -> None:
    assert config.find_share(None, None, environ) == expected


def test_a_rank_beyond_the_number_of_ranks_is_refused() -> None:
    with pytest.raises(SettingError, match="rank 2 of 2"):
        config.find_share(2, 2, {})


def test_one_server_instead_of_a_list_is_refused() -> None:
    with pytest.raises(SettingError, match="expected a list of host or host:port, found 'host:7800'"):
        config.find_servers("host:7800", None, None, {})


@pytest.mark.parametrize("port", ["x", "0", "70000"])
def test_a_variable_that_holds_no_port_is_refused(port: str) -> None:
    with pytest.raises(SettingError, match="expected a number from 1 to 65535"):
        config.find_servers(["a"], None, None, {"DLC_DATA_PORT": port})
    with pytest.raises(SettingError, match="expected a number from 1 to 65535"):
        config.find_lease_server("a", {"DLC_DATA_LEASE_PORT": port})


@pytest.mark.parametrize("asked", ["a:0", "a:99999", "[::1]:70000"])
def test_leases_at_a_place_that_holds_no_port_are_refused(asked: str) -> None:
    with pytest.raises(SettingError, match="expected a number from 1 to 65535"):
        config.find_lease_server(asked, {})


def test_the_leases_are_kept_on_the_first_host_that_trains() -> None:
    assert config.find_lease_server(None, job("algo-4", TWO, ["dnn_group"])) == ("algo-2", "algo-2", 7801)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "random"},
        {"tail": "half"},
        {"when_lost": "ignore"},
        {"when_lost": "give_back"},
        {"lost_after": 0},
        {"prefetch": 0},
        {"deadline": -1.0},
        {"deadline": None},
        {"patience": "300"},
        {"prefetch_bytes": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Settings(**wrong).check()


def test_a_time_without_end_is_one_that_a_lock_can_wait_for() -> None:
    settings = Settings(patience=float("inf"), deadline=float("inf"), elsewhere_after=float("inf")).check()
    assert max(settings.patience, settings.deadline, settings.elsewhere_after) < threading.TIMEOUT_MAX


def test_what_is_on_its_way_is_bounded_in_number_and_in_bytes() -> None:
    assert Settings(prefetch_bytes=100 << 20).window(workers=100, largest=10 << 20) == 10
    assert Settings().window(workers=2, largest=1000) == 16
    assert Settings(prefetch=5).window(workers=2, largest=1000) == 5
    assert Settings(prefetch_bytes=1).window(workers=2, largest=1000) == 2


def test_more_of_small_batches_that_come_fast_are_on_their_way_also_bounded() -> None:
    assert Settings().window(workers=1, largest=1000, each_second=100.0) == 8
    assert Settings().window(workers=1, largest=1000, each_second=2000.0) == 40
    assert Settings().window(workers=1, largest=1000, each_second=1e6) == 64
    assert Settings().window(workers=1, largest=100_000, each_second=1e6) == 41
    assert Settings().window(workers=1, largest=1_000_000, each_second=1e6) == 8
    assert Settings(prefetch=5).window(workers=1, largest=1000, each_second=1e6) == 5
    assert Settings(prefetch_bytes=10_000).window(workers=1, largest=1000, each_second=1e6) == 10
    assert Settings(order="first_come").window(workers=1, largest=1000, each_second=1e6) == 8


class Iterable:
    def __iter__(self) -> Any:
        return iter(())


def test_a_dataset_without_an_index_is_refused_with_the_reason() -> None:
    with pytest.raises(SettingError, match=r"Iterable is not indexable; .*another data host could make again"):
        batch_source.make_source(Iterable(), list, 1, False, False, 0, None)
    with pytest.raises(SettingError, match="batch_size"):
        batch_source.make_source([1], list, 0, False, False, 0, None)


class Number:
    """As numpy's: a number that JSON does not know."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_numbers_of_other_libraries_are_told_to_the_training_hosts_as_numbers() -> None:
    made: Any = batch_source.make_source([1, 2], list, Number(2), 1, 0, Number(7), None)  # type: ignore[arg-type]
    assert json.loads(json.dumps(made.facts)) == {**made.facts, "batch_size": 2, "shuffle": True, "seed": 7}
    with pytest.raises(SettingError, match=r"serve: seed: expected a whole number, found 0\.5"):
        batch_source.make_source([1], list, 1, False, False, 0.5, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("quota", "most"), [("50000 100000", 1), ("150000 100000", 2), ("max 100000", 1 << 20)])
def test_a_data_host_has_as_many_workers_as_its_container_has_cpus(tmp_path: Path, quota: str, most: int) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    assert serve.count_workers(None, [], str(tmp_path)) == min(len(os.sched_getaffinity(0)), most)
    assert serve.count_workers(7, [], str(tmp_path)) == 7


class Grouped:
    """As torch's fetch: a dataset may give several samples at once."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        raise AssertionError("the samples of a batch are asked for together")

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [-index for index in indices]


def test_a_dataset_that_gives_several_samples_at_once_is_asked_so() -> None:
    maker = batch_source.BatchMaker(batch_source.make_source(Grouped(), list, 4, False, False, 0, None))
    assert maker.batch(0, 1, maker.indices(0, 1)) == [-4, -5, -6, -7]


@pytest.mark.parametrize("port", ["x", 0, 70000])
def test_a_port_that_is_none_is_refused(port: Any) -> None:
    with pytest.raises(SettingError, match="expected a number from 1 to 65535"):
        addresses.control_port(port)


def test_the_table_tells_what_each_worker_does() -> None:
    table = StatusTable(2)
    table.start_worker(1, 4711)
    table.begin_batch(1, 3, 9)
    table.add_strangers(1, malformed=2)
    busy = table.read(1)
    assert (busy.pid, busy.epoch, busy.id, busy.batches, busy.bytes, busy.malformed) == (4711, 3, 9, 0, 0, 2)
    assert busy.since > 0
    table.end_batch(1, batches=1, bytes_=10)
    table.end_batch(1)
    assert table.read(1) == (4711, 0, 0, 0.0, 1, 10, 0, 2)
    assert table.read(0).pid == 0


def test_without_grpc_both_sides_say_which_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"needs grpcio and grpcio-health-checking, .*requirements\.txt"):
        served([1, 2], list)
    with pytest.raises(MissingPackageError, match="needs grpcio"):
        RemoteLoader(["127.0.0.1:1"], rank=0, world=1)
