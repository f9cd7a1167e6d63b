"""An interface that a client names and this host does not have: another one, that of the host's address, is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.job_folder import HOROVOD, MPI, TORCHRUN, JobFolder, decisions, hosts
from launch.discovery import host_addresses
from launch.plan import request as request_module
from launch.plan.explain import as_data
from launch.plan.host_plan import make_host_plan
from launch.plan.request import read_request, with_own_interface
from launch.preflight.host_checks import check_host

ADDRESSES = {"eth0": ["10.0.0.1"], "ens5": ["192.168.0.1", "fd00::1"], "lo": ["127.0.0.1"]}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """What SDK 3's local mode says of two hosts."""
    monkeypatch.setattr(host_addresses, "interface_addresses", ADDRESSES.__getitem__)
    monkeypatch.setattr(request_module, "interface_of_default_route", lambda: "eth0")
    config = {**hosts("algo-1", "algo-2"), "network_interface_name": "ethwe"}
    return JobFolder(tmp_path / "ml").config("resourceconfig", config).code().hyperparameters()


def explain(job: JobFolder, *interfaces: str) -> dict[str, Any]:
    """What `--explain` says on a host with these interfaces."""
    request = read_request(job.environ)
    request = with_own_interface(request._replace(devices=request.devices._replace(interfaces=interfaces)))
    return as_data(make_host_plan(request))


@pytest.mark.parametrize(
    ("address", "used"),
    [
        ("192.168.0.1", "ens5"), ("fd00::1", "ens5"), ("10.0.0.1", "eth0"),
        # The name leads to loopback, to another host, nowhere: the way out of this one.
        ("127.0.0.1", "eth0"), ("203.0.113.1", "eth0"), ("", "eth0"),
    ],
)  # fmt: skip
def test_it_is_the_one_with_the_address_of_this_host(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, address: str, used: str
) -> None:
    monkeypatch.setattr(host_addresses, "own_addresses", lambda _host, _interface: (address,) if address else ())
    data = explain(job, *ADDRESSES)
    assert data["cluster"]["network_interface"] == data["env"]["SM_NETWORK_INTERFACE_NAME"] == used
    assert f"network interface {used}: this host has no ethwe" in decisions(data)


def test_what_is_there_or_cannot_be_known_stays(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_addresses, "own_addresses", lambda *_: pytest.fail("nobody has to be asked"))
    for interfaces in (("ethwe", "lo"), ()):
        assert explain(job, *interfaces)["cluster"]["network_interface"] == "ethwe"


def test_if_no_other_one_leads_out_preflight_tells_of_it(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_addresses, "own_addresses", lambda *_: ())
    request = read_request(job.environ)
    request = with_own_interface(request._replace(devices=request.devices._replace(interfaces=("lo",))))
    assert "there is no network interface ethwe" in str(check_host(request.devices, request.cluster, {}))


@pytest.mark.parametrize("strategy", [MPI, HOROVOD, TORCHRUN], ids=str)
def test_every_strategy_names_it_to_its_libraries(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, strategy: dict[str, object]
) -> None:
    monkeypatch.setattr(host_addresses, "own_addresses", lambda *_: ("192.168.0.1",))
    job.hyperparameters(**strategy)
    data = explain(job, *ADDRESSES)
    process = data["processes"][-1]
    # As read from the file
    config = ("SM_RESOURCE_CONFIG", "SM_TRAINING_ENV")
    env = {name: value for name, value in {**data["env"], **process["env"]}.items() if name not in config}
    assert "ethwe" not in str([process["argv"], env])
    assert env["NCCL_SOCKET_IFNAME"] == "ens5"
    if strategy == MPI:
        assert [process["argv"][at + 1] for at, word in enumerate(process["argv"]) if "if_include" in word] == [
            "ens5"
        ] * 2
    if strategy == HOROVOD:
        assert process["env"]["HOROVOD_GLOO_IFACE"] == "ens5"


def test_what_the_user_sets_counts(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_addresses, "own_addresses", lambda *_: ("192.168.0.1",))
    assert explain(job.env(NCCL_SOCKET_IFNAME="=ib0"), *ADDRESSES)["env"].get("NCCL_SOCKET_IFNAME", "=ib0") == "=ib0"
