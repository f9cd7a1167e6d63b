"""Where tf.data.service is looked for, what is refused, and which ways there are to its servers."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.tensorflow import distribute, endpoints, server

GROUPS = {"cpus": ["algo-3", "algo-1"], "gpus": ["algo-2"]}


def environ(groups: dict[str, list[str]], training: list[str] | None = None, **others: str) -> dict[str, str]:
    listed = [{"instance_group_name": name, "hosts": hosts} for name, hosts in groups.items()]
    return {
        "SM_HOSTS": json.dumps([host for hosts in groups.values() for host in hosts]),
        "SM_RESOURCE_CONFIG": json.dumps({"instance_groups": listed}),
        "SM_DISTRIBUTION_INSTANCE_GROUPS": json.dumps(training or []),
        **others,
    }


def service(variables: dict[str, str]) -> endpoints.Service:
    return endpoints.find_service(cluster_facts.read(variables), None, variables)


def test_the_dispatcher_is_on_the_first_host_of_the_group_that_serves_and_a_worker_on_each() -> None:
    expected = endpoints.Service("algo-3:7802", ("algo-3:7803", "algo-1:7803"))
    assert service(environ(GROUPS, DLC_TF_DATA_GROUP="cpus")) == expected
    assert service(environ(GROUPS, ["gpus"])) == expected
    assert service(environ({"gpus": ["algo-2"], "data_group": ["algo-3", "algo-1"]})) == expected


def test_workers_run_beside_the_training_too_where_the_switch_says_so() -> None:
    found = service(environ(GROUPS, DLC_TF_DATA_GROUP="cpus", DLC_TF_DATA_WORKERS="all"))
    assert found.workers == ("algo-3:7803", "algo-1:7803", "algo-2:7803")


def test_the_ports_are_those_that_the_variables_name() -> None:
    ports = {"DLC_TF_DATA_PORT": "1", "DLC_TF_DATA_WORKER_PORT": "2"}
    assert service(environ(GROUPS, ["gpus"], **ports)) == endpoints.Service("algo-3:1", ("algo-3:2", "algo-1:2"))
    with pytest.raises(SettingError, match="DLC_TF_DATA_PORT: expected a port from 1 to 65535, found 'x'"):
        service(environ(GROUPS, ["gpus"], DLC_TF_DATA_PORT="x"))


def test_a_job_without_data_hosts_is_told_how_to_get_some() -> None:
    with pytest.raises(SettingError, match=r"no data hosts: its groups are \['gpus'\].*DLC_GROUP_PROGRAMS="):
        service(environ({"gpus": ["algo-1"]}))


@pytest.mark.parametrize(
    ("variables", "processes"),
    [
        ({}, 2),
        ({"HOROVOD_SIZE": "8"}, 8),
        ({"HOROVOD_SIZE": "8", "OMPI_COMM_WORLD_SIZE": "8"}, 8),
        ({"WORLD_SIZE": "4", "HOROVOD_SIZE": "8"}, 0),
        ({"WORLD_SIZE": "1"}, 0),
        ({"TF_CONFIG": json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}})}, 2),
        ({"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1", "a:2", "b:1", "b:2"]}})}, 0),
    ],
)
def test_processes_that_train_are_counted_if_the_variables_agree(variables: dict[str, str], processes: int) -> None:
    job = cluster_facts.read(environ({"cpus": ["algo-3"], "gpus": ["algo-1", "algo-2"]}))
    assert endpoints.count_processes(job, "cpus", variables) == processes


@pytest.mark.parametrize("wrong", [{"mode": "static"}, {"name": ""}])
def test_arguments_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"distribute: {next(iter(wrong))}"):
        distribute(None, **wrong)


def test_connections_to_the_jobs_hosts_go_past_a_proxy() -> None:
    variables = {"http_proxy": "http://proxy", "no_proxy": "localhost,a"}
    endpoints.bypass_proxies(["a:1", "b:2", "[::1]:3"], variables)
    assert variables["no_grpc_proxy"] == "localhost,a,b,::1"
    without: dict[str, str] = {}
    endpoints.bypass_proxies(["a:1"], without)
    assert without == {}


def test_the_interface_of_the_address_and_the_loopback_are_no_other_interfaces() -> None:
    every = server.other_interfaces("192.0.2.1")  # nobody's
    assert "lo" not in every
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # sends nothing; tells the address of the interface that would
        except OSError:
            pytest.skip("this machine has no network")
        own = sock.getsockname()[0]
    assert len(server.other_interfaces(own)) == len(every) - 1
