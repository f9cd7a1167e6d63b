"""consistency and host_checks: what does not fit between hosts, or will bite on this one, is said with its remedy."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.job_folder import JobFolder
from harness.job_folder import hosts as resourceconfig
from launch.base.errors import CONFIG, LaunchError
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices
from launch.plan.request import Request, read_request
from launch.preflight import consistency, host_checks

HOSTS = ("algo-1", "algo-2", "algo-3")
IMAGE = "1f" * 32
TORCHRUN = {"sagemaker_program": "train.py", "sagemaker_torch_distributed_enabled": "true"}


def request_of(folder: Path, host: str, **environ: str) -> Request:
    """What the launcher reads on this host of a torchrun job."""
    job = JobFolder(folder / host).config("resourceconfig", resourceconfig(*HOSTS, current=host))
    job.config("hyperparameters", TORCHRUN)
    return read_request({**job.environ, "DLC_NUM_GPUS": "4", "DLC_CONTENT_KEY": IMAGE, **environ})


def facts_of(folder: Path, **different: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The facts of all hosts as they come over the wire; `different`: variables of a host unlike the rest."""
    found = {}
    for host in HOSTS:
        facts = consistency.host_facts(request_of(folder, host, **different.get(host.replace("-", "_"), {})))
        found[host] = json.loads(json.dumps({**facts, "traps": []}))
    return found


def test_hosts_of_one_job_fit_together(tmp_path: Path) -> None:
    assert consistency.compare_hosts(facts_of(tmp_path)) == []


@pytest.mark.parametrize(
    ("environ", "says", "remedy"),
    [
        (
            {"DLC_CONTENT_KEY": "2e" * 32},
            "images: 1f1f1f1f1f1f on algo-1, algo-3, 2e2e2e2e2e2e on algo-2",
            "digest",
        ),
        ({"DLC_CONTENT_KEY": ""}, "images: 1f1f1f1f1f1f on algo-1, algo-3, none on algo-2", "digest"),
        ({"DLC_NUM_GPUS": "8"}, "numbers of processes: 4 on algo-1, algo-3, 8 on algo-2", "instance type"),
        (
            {"DLC_EFA": "1"},
            "some have not: False on algo-1, algo-3, True on algo-2",
            "DLC_EFA=0",
        ),
        (
            {"DLC_STRATEGY": "mpi"},
            "strategies: torchrun on algo-1, algo-3, mpi on algo-2",
            "hyperparameters.json",
        ),
    ],
)
def test_a_host_that_is_not_like_the_others_is_named(
    tmp_path: Path, environ: dict[str, str], says: str, remedy: str
) -> None:
    finding = consistency.compare_hosts(facts_of(tmp_path, algo_2=environ))[0]
    assert says in finding.what
    assert remedy in finding.remedy
    assert finding.is_error


def test_a_different_list_of_hosts_is_noticed(tmp_path: Path) -> None:
    known = facts_of(tmp_path)
    job = JobFolder(tmp_path / "other").config("resourceconfig", resourceconfig(*reversed(HOSTS), current="algo-3"))
    job.config("hyperparameters", TORCHRUN)
    known["algo-3"] = consistency.host_facts(
        read_request({**job.environ, "DLC_NUM_GPUS": "4", "DLC_CONTENT_KEY": IMAGE})
    )
    what = " ".join(finding.what for finding in consistency.compare_hosts(known))
    assert "different lists of hosts" in what
    assert "different distributed groups" in what


def test_hosts_outside_the_distributed_group_may_have_other_devices(tmp_path: Path) -> None:
    known = facts_of(tmp_path)
    known["algo-2"] = {**known["algo-2"], "processes": 0, "efa": None}
    assert consistency.compare_hosts(known) == []


def test_a_group_outside_the_distributed_one_may_have_its_own_image_on_all_of_its_hosts(tmp_path: Path) -> None:
    known = facts_of(tmp_path)
    known["algo-2"] |= {"part": "data_group", "image": "other"}
    assert consistency.compare_hosts(known) == []
    known["algo-3"] |= {"part": "data_group"}
    [finding] = consistency.compare_hosts(known)
    assert "different images: other on algo-2" in finding.what


def test_a_misfit_ends_the_job_before_it_starts_and_says_how_to_go_on(tmp_path: Path) -> None:
    known = facts_of(tmp_path, algo_2={"DLC_CONTENT_KEY": "other"})
    with pytest.raises(LaunchError, match=r"different images.*DLC_PREFLIGHT=warn") as error:
        consistency.check_hosts(request_of(tmp_path / "again", "algo-1"), known)
    assert error.value.exit_code == CONFIG


def test_with_warn_a_misfit_is_a_line_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = facts_of(tmp_path, algo_2={"DLC_CONTENT_KEY": "other"})
    consistency.check_hosts(request_of(tmp_path / "again", "algo-1", DLC_PREFLIGHT="warn"), known)
    assert "dlc: preflight: the hosts run different images" in capsys.readouterr().err


def test_a_host_says_its_own_traps_and_not_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = facts_of(tmp_path)
    known["algo-1"]["traps"] = ["small shm; grow it"]
    known["algo-2"]["traps"] = ["no EFA; add it"]
    consistency.check_hosts(request_of(tmp_path / "again", "algo-1"), known)
    assert capsys.readouterr().err == "dlc: preflight: small shm; grow it\n"


def test_the_report_gathers_traps_by_host_and_says_whether_the_job_can_start(tmp_path: Path) -> None:
    known = facts_of(tmp_path, algo_2={"DLC_NUM_GPUS": "8"})
    for host in HOSTS:
        known[host]["traps"] = ["small shm; grow it"]
    known["algo-3"]["traps"].append("few files; more files")
    text, ready = consistency.as_report(known, 0.25)
    assert not ready
    lines = text.splitlines()
    assert lines[0] == "preflight: 3 host(s) answered in 0.25 s"
    assert lines[1].startswith("error: the hosts would run different numbers of processes")
    assert lines[2:] == ["warning: algo-3: few files; more files", "warning: every host: small shm; grow it"]


def test_a_report_without_findings_says_so(tmp_path: Path) -> None:
    text, ready = consistency.as_report(facts_of(tmp_path), 0.1)
    assert ready
    assert text.endswith("all is well")


@given(st.dictionaries(st.sampled_from([f"algo-{n}" for n in range(9)]), st.sampled_from(["a", "b", ""]), min_size=1))
def test_hosts_differ_exactly_when_their_values_do(images: dict[str, str]) -> None:
    same = {"hosts": "h", "groups": "g", "strategy": "s", "distributed over": "d", "processes": 1, "efa": False}
    found = consistency.compare_hosts({host: {**same, "image": image, "traps": []} for host, image in images.items()})
    assert len(found) == (len(set(images.values())) > 1)


def test_64_hosts_that_disagree_are_a_line_one_can_read() -> None:
    same = {"hosts": "h", "groups": "g", "strategy": "s", "distributed over": "d", "processes": 1, "efa": False}
    known = {f"algo-{n}": {**same, "image": "a" if n else "b"} for n in range(64)}
    (finding,) = consistency.compare_hosts(known)
    assert "and 59 more" in finding.what
    assert len(finding.what) < 200


# --- traps of one host


class Machine:
    """A pretended root with the files a test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev/shm").mkdir(parents=True)

    def file(self, path: str, text: str = "") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def traps(
        self,
        devices: Devices = Devices(8, 8),  # noqa: B008
        cluster: Cluster = Cluster("test", ("a",), "a"),  # noqa: B008
        **environ: str,
    ) -> str:
        return "\n".join(map(str, host_checks.check_host(devices, cluster, environ, str(self.root))))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: unlimited)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((4096, 4096, *[1 << 20] * 3, 0, 0, 0, 0, 255)))
    return Machine(tmp_path)


def test_a_good_machine_has_no_traps(machine: Machine) -> None:
    assert machine.traps() == ""


def test_dockers_default_shared_memory_is_named_where_nccl_runs_and_only_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = os.statvfs_result((4096, 4096, 1 << 14, *[1 << 20] * 2, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: small)
    assert machine.traps() == ""
    assert "(/dev/shm) is 64 MiB" in machine.traps(Devices(8, 8, num_gpus=1))
    assert "--shm-size" in machine.traps(Devices(8, 8, num_gpus=1))


def test_an_efa_adapter_the_container_was_not_given_is_named(machine: Machine) -> None:
    machine.file("sys/class/infiniband/rdmap0s6/device/vendor", "0x1d0f\n")
    assert "EFA adapter rdmap0s6" in machine.traps()
    assert "--device=/dev/infiniband" in machine.traps()
    machine.file("dev/infiniband/uverbs0")
    assert machine.traps() == ""


def test_little_lockable_memory_matters_with_an_rdma_adapter_only(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: (65536, 65536) if which == resource.RLIMIT_MEMLOCK else (1 << 20, 1 << 20)
    )
    assert machine.traps() == ""
    assert "--ulimit memlock=-1" in machine.traps(Devices(8, 8, efa=True))


def test_efa_without_a_plug_in_of_nccl_is_named_where_nccl_would_use_it(machine: Machine) -> None:
    devices, two = Devices(8, 8, num_gpus=8, efa=True), Cluster("test", ("a", "b"), "a")
    assert "NCCL will use TCP" in machine.traps(devices, two)
    assert "efa.source=installer" in machine.traps(devices, two)
    assert machine.traps(devices) == ""  # GPUs of one host need no network
    assert machine.traps(devices._replace(num_gpus=0), two) == ""
    assert machine.traps(devices._replace(efa=False), two) == ""
    assert machine.traps(devices, two, NCCL_NET_PLUGIN="mine") == ""


@pytest.mark.parametrize("folder", ["usr/local/lib", f"usr/lib/{os.uname().machine}-linux-gnu", "opt/plugin/lib"])
def test_a_plug_in_of_nccl_is_found_where_the_loader_looks(machine: Machine, folder: str) -> None:
    devices, two = Devices(8, 8, num_gpus=8, efa=True), Cluster("test", ("a", "b"), "a")
    machine.file(f"{folder}/libnccl-net.so")
    assert machine.traps(devices, two, LD_LIBRARY_PATH="/other:/opt/plugin/lib") == ""


def test_gpus_the_container_was_not_given_are_named(machine: Machine) -> None:
    machine.file("proc/driver/nvidia/gpus/0000:00:1e.0/information")
    assert "--gpus all" in machine.traps()
    machine.file("dev/nvidia0")
    assert machine.traps() == ""


def test_few_open_files_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, 4096))
    assert "can open 1024 files" in machine.traps()


def test_an_interface_that_is_not_there_matters_with_several_hosts(machine: Machine) -> None:
    devices = Devices(8, 8, interfaces=("eth1", "lo"))
    assert machine.traps(devices) == ""
    found = machine.traps(devices, Cluster("test", ("a", "b"), "a"))
    assert "no network interface eth0; there are eth1, lo" in found
    assert machine.traps(devices, Cluster("test", ("a", "b"), "a", network_interface="eth1")) == ""


def test_an_interface_that_is_not_there_is_said_where_ranks_of_one_host_talk_over_it(machine: Machine) -> None:
    devices, one = Devices(8, 8, interfaces=("eth1", "lo")), Cluster("test", ("a",), "a")
    found = host_checks.check_host(devices, one, {}, str(machine.root), is_distributed=True)
    assert "no network interface eth0" in str(found[0])


def test_this_very_machine_can_be_looked_at() -> None:
    for finding in host_checks.check_host(Devices(8, 8), Cluster("test", ("a",), "a"), os.environ):
        assert finding.remedy
