"""`dlc_runtime.cluster()`: what a script learns from the launcher's variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dlc_runtime
from dlc_runtime.cluster_facts import Cluster, ClusterError, Peer, read

GROUPS = [
    {"instance_group_name": "data_group", "instance_type": "ml.c5.xlarge", "hosts": ["algo-3", "algo-1"]},
    {"instance_group_name": "dnn_group", "instance_type": "ml.p4d.24xlarge", "hosts": ["algo-2"]},
]


def variables(host: str, **more: str) -> dict[str, str]:
    return {
        "SM_HOSTS": '["algo-1","algo-2","algo-3"]',
        "SM_CURRENT_HOST": host,
        "SM_RESOURCE_CONFIG": json.dumps({"instance_groups": GROUPS}),
        "SM_DISTRIBUTION_INSTANCE_GROUPS": '["dnn_group"]',
        "SM_NETWORK_INTERFACE_NAME": "eth1",
        **more,
    }


def test_a_host_learns_its_group_and_its_rank_in_the_order_of_the_group_not_of_the_names() -> None:
    found = read(variables("algo-1"))
    assert (found.group, found.rank, found.is_training) == ("data_group", 1, False)
    assert [peer.host for peer in found.peers] == ["algo-3", "algo-1"]
    assert found.me == Peer("algo-1", "data_group", 1, "algo-1")


def test_peers_of_another_group_are_found_by_its_name() -> None:
    found = read(variables("algo-2"))
    assert found.is_training
    assert found.interface == "eth1"
    assert [(peer.host, peer.rank) for peer in found.hosts_of("data_group")] == [("algo-3", 0), ("algo-1", 1)]


def test_a_group_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(ClusterError, match=r"'data'.*'data_group', 'dnn_group'"):
        read(variables("algo-2")).hosts_of("data")


def test_a_host_whose_name_does_not_resolve_has_the_address_that_the_launcher_learned() -> None:
    found = read(variables("algo-2", DLC_HOST_ADDRESSES='{"algo-3":"10.0.0.3"}'))
    assert [peer.address for peer in found.hosts_of("data_group")] == ["10.0.0.3", "algo-1"]


def test_groups_listed_several_times_under_one_name_are_one_group() -> None:
    listed = [{"instance_group_name": "g", "hosts": [host]} for host in ("algo-1", "algo-2", "algo-3")]
    found = read(variables("algo-3", SM_RESOURCE_CONFIG=json.dumps({"instance_groups": listed})))
    assert (found.group, found.rank, len(found.peers)) == ("g", 2, 3)


def test_without_the_variable_that_is_too_long_for_a_thousand_hosts_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "resourceconfig.json").write_text(json.dumps({"instance_groups": GROUPS}))
    environ = variables("algo-1", SM_INPUT_CONFIG_DIR=str(tmp_path))
    del environ["SM_RESOURCE_CONFIG"]
    assert read(environ).group == "data_group"


def test_hosts_without_groups_all_train_in_the_platforms_default_group() -> None:
    found = read({"SM_HOSTS": '["a","b"]', "SM_CURRENT_HOST": "b", "SM_RESOURCE_CONFIG": "{}"})
    assert (found.group, found.rank, found.is_training) == ("homogeneousCluster", 1, True)


@pytest.mark.parametrize("environ", [{}, {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"}])
def test_a_host_alone_is_reached_at_localhost_because_its_name_may_not_resolve(environ: dict[str, str]) -> None:
    assert [peer.address for peer in read(environ).peers] == ["localhost"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"SM_HOSTS": "algo-1"},
        {"SM_HOSTS": '{"a": 1}'},
        {"SM_CURRENT_HOST": "algo-9"},
        {"SM_RESOURCE_CONFIG": '{"instance_groups": [1]}'},
        {"SM_RESOURCE_CONFIG": '{"instance_groups": [{"instance_group_name": "g", "hosts": ["algo-7"]}]}'},
        {"SM_RESOURCE_CONFIG": "[]x"},
        {"DLC_HOST_ADDRESSES": "[1]"},
    ],
)
def test_variables_that_make_no_sense_are_one_error(wrong: dict[str, str]) -> None:
    with pytest.raises(ClusterError):
        read(variables("algo-1") | wrong)


def test_importing_its_module_does_not_hide_the_function() -> None:
    assert isinstance(dlc_runtime.cluster(), Cluster)
