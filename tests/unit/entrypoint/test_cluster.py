"""Discovery: what hosts there are, from whichever of the sources speaks first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import DATA, DNN, HETEROGENEOUS, HOMOGENEOUS, hosts
from launch.base.errors import LaunchError
from launch.base.paths import Paths
from launch.discovery import cluster
from launch.discovery import discover as discover_module
from launch.discovery import resourceconfig as discover_resourceconfig


def parse(config: dict[str, Any]) -> cluster.Cluster:
    return discover_resourceconfig.parse_resourceconfig("resourceconfig.json", config)


def discover(folder: Path, **environ: str) -> cluster.Cluster:
    return discover_module.discover(environ, Paths(str(folder)))


def test_a_homogeneous_job_has_one_group_and_is_not_heterogeneous() -> None:
    found = parse(hosts("algo-1", "algo-2", current="algo-2"))
    assert found.current_group_hosts == ("algo-1", "algo-2")
    assert not found.is_heterogeneous


def test_hosts_of_a_group_keep_the_order_of_the_file() -> None:
    found = parse(HETEROGENEOUS)
    assert found.is_heterogeneous
    assert found.current_group_hosts == ("algo-3", "algo-1")
    assert found.hosts_of(["data", "dnn"]) == ("algo-2", "algo-3", "algo-1")


def test_local_modes_short_form_has_no_groups_and_every_host_is_in_the_only_one() -> None:
    found = parse({"current_host": "a", "hosts": ["a", "b"], "current_instance_type": "local"})
    assert found.groups == ()
    assert found.hosts_of(["homogeneousCluster"]) == ("a", "b")
    assert (found.instance_type, found.network_interface) == ("local", "eth0")


def test_topology_of_an_ultra_server_is_taken_along() -> None:
    topology = [{"hostName": "algo-1", "capacityUnitId": "u"}]
    assert parse({**HOMOGENEOUS, "topology": topology}).resource_config["topology"] == topology


def test_groups_of_one_name_distribute_over_all_their_hosts() -> None:
    same = [{**DNN, "hosts": [host]} for host in ("algo-1", "algo-2", "algo-3")]
    found = parse({**HETEROGENEOUS, "instance_groups": same})
    assert found.hosts_of(["dnn"]) == ("algo-1", "algo-2", "algo-3")


def test_unsorted_hosts_keep_their_order_because_ranks_follow_the_file() -> None:
    found = parse({"current_host": "algo-2", "hosts": ["algo-2", "algo-10", "algo-1"]})
    assert found.hosts == ("algo-2", "algo-10", "algo-1")


def test_a_group_name_that_no_group_has_leaves_the_host_without_mates() -> None:
    assert parse({**HETEROGENEOUS, "current_group_name": "other"}).current_group_hosts == ()


def test_null_is_not_stated() -> None:
    optional = ("current_group_name", "current_instance_type", "network_interface_name", "instance_groups", "topology")
    short = {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]}
    assert parse({**short, **dict.fromkeys(optional)})._replace(resource_config={}) == parse(short)._replace(
        resource_config={}
    )
    assert (
        parse({**HETEROGENEOUS, "instance_groups": [{**DATA, "instance_type": None}, DNN]}).groups[0].instance_type
        == ""
    )


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"current_host": "algo-9"}, "current_host"),
        ({"current_host": 3}, "current_host"),
        ({"current_host": None}, "current_host"),
        ({"hosts": []}, "hosts"),
        ({"hosts": "algo-1"}, "hosts"),
        ({"hosts": {"algo-1": 1}}, "hosts"),
        ({"hosts": ["algo-1", "algo-1"]}, "hosts"),
        ({"hosts": ["algo-1", ""]}, "hosts"),
        ({"hosts": ["algo-1", "-oProxyCommand=x"]}, "hosts"),
        ({"hosts": ["algo-1", "a b"]}, "hosts"),
        ({"hosts": ["algo-1", "a\0"]}, "hosts"),
        ({"hosts": ["algo-1", 2]}, "hosts"),
        ({"instance_groups": {}}, "instance_groups"),
        ({"instance_groups": [3]}, "instance_groups[0]"),
        ({"instance_groups": [{**DNN, "hosts": ["algo-1", "algo-7"]}]}, "instance_groups[0].hosts"),
        ({"instance_groups": [{**DNN, "hosts": []}]}, "instance_groups[0].hosts"),
        ({"instance_groups": [{**DNN, "instance_group_name": 1}]}, "instance_groups[0].instance_group_name"),
        ({"instance_groups": [DNN, {**DATA, "hosts": ["algo-1"]}]}, "instance_groups"),
        ({"current_group_name": "data"}, "current_group_name"),
        ({"current_group_name": ["dnn"]}, "current_group_name"),
        ({"network_interface_name": ""}, "network_interface_name"),
        ({"network_interface_name": "--x"}, "network_interface_name"),
        ({"network_interface_name": 0}, "network_interface_name"),
        ({"topology": "x"}, "topology"),
    ],
)
def test_a_wrong_resourceconfig_is_named_by_file_and_key(change: dict[str, object], key: str) -> None:
    with pytest.raises(LaunchError) as error:
        parse({**HETEROGENEOUS, **change})
    assert str(error.value).startswith(f"resourceconfig.json: {key}; expected ")
    assert "; found " in str(error.value)
    assert error.value.exit_code == 65


def test_without_any_word_the_host_is_alone(tmp_path: Path) -> None:
    found = discover(tmp_path)
    assert (found.source, found.hosts, found.current_host) == ("single host", ("algo-1",), "algo-1")


def test_stated_hosts_come_before_every_other_source(tmp_path: Path) -> None:
    found = discover(tmp_path, DLC_HOSTS="a, b", DLC_RANK="1", JOB_COMPLETION_INDEX="0", DLC_NUM_HOSTS="4")
    assert (found.source, found.hosts, found.current_host) == ("DLC_HOSTS", ("a", "b"), "b")


def test_one_stated_host_needs_no_rank(tmp_path: Path) -> None:
    assert discover(tmp_path, DLC_HOSTS="10.0.0.1").current_host == "10.0.0.1"


@pytest.mark.parametrize("rank", ["", "2", "-1", "x", "²"])
def test_a_rank_outside_of_the_stated_hosts_is_an_error(tmp_path: Path, rank: str) -> None:
    with pytest.raises(LaunchError, match=r"DLC_RANK.*a number from 0 to 1"):
        discover(tmp_path, DLC_HOSTS="a,b", DLC_RANK=rank)


def test_a_stated_interface_is_used_where_the_platform_names_none(tmp_path: Path) -> None:
    assert discover(tmp_path, DLC_HOSTS="a", DLC_NETWORK_INTERFACE="ib0").network_interface == "ib0"


def test_the_rank_is_found_by_this_hosts_name_where_nobody_states_it(tmp_path: Path) -> None:
    assert discover(tmp_path, DLC_HOSTS="a.net,b.net", HOSTNAME="b").current_host == "b.net"
    assert discover(tmp_path, DLC_HOSTS="a,b", SLURMD_NODENAME="b", HOSTNAME="c0ffee").current_host == "b"
    assert discover(tmp_path, DLC_HOSTS="a.net,a", HOSTNAME="a").current_host == "a"
    assert discover(tmp_path, DLC_HOSTS="7.net,8.net", HOSTNAME="8").current_host == "8.net"


def test_of_addresses_only_the_same_one_is_this_host(tmp_path: Path) -> None:
    assert discover(tmp_path, DLC_HOSTS="10.0.0.1,10.0.0.2", HOSTNAME="10.0.0.2").current_host == "10.0.0.2"
    with pytest.raises(LaunchError, match="no host called as this one is"):
        discover(tmp_path, DLC_HOSTS="10.0.0.1,192.168.0.1", HOSTNAME="10.9.9.9")


def test_no_host_at_all_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="DLC_GROUPS: no host; expected groups like"):
        discover(tmp_path, DLC_GROUPS="", DLC_RANK="0")


@pytest.mark.parametrize(
    ("stated", "hosts"),
    [
        ("h[1-3]", ("h1", "h2", "h3")),
        ("[fd00::1],[fd00::2]", ("fd00::1", "fd00::2")),
        ("fd00::1, fd00::2", ("fd00::1", "fd00::2")),
    ],
)
def test_stated_hosts_may_be_short_or_ipv6_literals(tmp_path: Path, stated: str, hosts: tuple[str, ...]) -> None:
    assert discover(tmp_path, DLC_HOSTS=stated, DLC_RANK="0").hosts == hosts


def test_groups_are_stated_outside_of_the_platform_too(tmp_path: Path) -> None:
    found = discover(tmp_path, DLC_GROUPS="data=h1,h2;dnn=h[3-4]", DLC_RANK="3")
    assert (found.hosts, found.current_host, found.current_group) == (("h1", "h2", "h3", "h4"), "h4", "dnn")
    assert found.is_heterogeneous
    assert found.hosts_of(["dnn"]) == ("h3", "h4")
    groups = found.resource_config["instance_groups"]
    assert [(group["instance_group_name"], group["hosts"]) for group in groups] == [
        ("data", ["h1", "h2"]),
        ("dnn", ["h3", "h4"]),
    ]


def test_a_job_sets_replicated_jobs_are_groups_by_their_pods_names(tmp_path: Path) -> None:
    found = discover(
        tmp_path,
        DLC_GROUPS="data=pt-data-0-0.pt;dnn=pt-dnn-0-[0-1].pt",
        HOSTNAME="pt-dnn-0-1",
        JOB_COMPLETION_INDEX="1",
    )
    assert (found.current_host, found.current_group) == ("pt-dnn-0-1.pt", "dnn")


def test_in_a_job_set_groups_are_found_by_the_number_of_their_pods(tmp_path: Path) -> None:
    environ = {"DLC_GROUPS": "data_group=2; dnn.Group = 1", "JOBSET_NAME": "pt"}
    found = discover(tmp_path, HOSTNAME="pt-dnn-group-0-0", **environ)
    assert found.hosts == ("pt-data-group-0-0.pt", "pt-data-group-0-1.pt", "pt-dnn-group-0-0.pt")
    assert (found.current_host, found.current_group) == ("pt-dnn-group-0-0.pt", "dnn.Group")
    behind = discover(tmp_path, HOSTNAME="pt-data-group-0-1.svc.cluster.local", DLC_SERVICE="svc", **environ)
    assert (behind.current_host, behind.current_group) == ("pt-data-group-0-1.svc", "data_group")


def test_groups_of_a_job_set_are_jobs_of_their_own_as_those_of_the_platform_are(tmp_path: Path) -> None:
    in_a_job_set = {"JOBSET_NAME": "pt", "HOSTNAME": "pt-a-0-0"}
    assert discover(tmp_path, DLC_GROUPS="a=1;b=1", **in_a_job_set).each_group_is_a_job
    assert not discover(tmp_path, DLC_GROUPS="a=pt-a-0-0.pt;b=pt-b-0-0.pt", **in_a_job_set).each_group_is_a_job
    assert not discover(tmp_path, DLC_GROUPS="a=1;b=2", DLC_RANK="0").each_group_is_a_job


@pytest.mark.parametrize("environ", [{"DLC_GROUPS": "a=0;b=1"}, {"DLC_GROUPS": "a=1;b=1", "HOSTNAME": "pt-c-0-0"}])
def test_a_pod_that_is_in_no_group_of_its_job_set_is_an_error(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match="DLC_RANK"):
        discover(tmp_path, **{"JOBSET_NAME": "pt", "HOSTNAME": "pt-a-0-0", **environ})


def test_groups_beside_stated_hosts_keep_the_order_of_the_hosts(tmp_path: Path) -> None:
    found = discover(tmp_path, DLC_HOSTS="h3,h1,h2", DLC_GROUPS="data=h1;dnn=h2,h3", DLC_RANK="1")
    assert (found.hosts, found.current_group) == (("h3", "h1", "h2"), "data")


@pytest.mark.parametrize("groups", ["data", "=h1", "a=h1;a=h2", "a=h1;b=h1", "a=h1[", "a="])
def test_malformed_groups_are_an_error(tmp_path: Path, groups: str) -> None:
    with pytest.raises(LaunchError) as error:
        discover(tmp_path, DLC_GROUPS=groups, DLC_RANK="0")
    assert error.value.exit_code in (65, 78)


def test_a_host_that_is_in_no_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"DLC_GROUPS: .*in one group"):
        discover(tmp_path, DLC_HOSTS="a,b", DLC_GROUPS="x=a", DLC_RANK="0")
