"""Preflight of one host: the driver against the image's CUDA, GPUs that are lost, disks without room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launch.base.errors import CONFIG, LaunchError
from launch.discovery.cluster import Cluster
from launch.discovery.devices import Devices
from launch.preflight import consistency, host_checks

OLD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: 12.2\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\n"


class Host:
    """A pretended root with a driver and GPUs, and an image's environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.venv = root / "opt/venv"
        self.file("dev/shm/x")

    def file(self, path: str, text: str = "") -> Host:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self

    def gpu(self, minor: int, excluded: str = "No") -> Host:
        text = f"Model: \t\t NVIDIA H200\nDevice Minor: \t {minor}\nGPU Excluded:\t {excluded}\n"
        return self.file(f"proc/driver/nvidia/gpus/0000:0{minor}:00.0/information", text)

    def image(self, package: str) -> Host:
        return self.file(f"opt/venv/lib/python3.11/site-packages/{package}.dist-info/METADATA")

    def find(self) -> list[host_checks.HostFinding]:
        environ = {"DLC_VENV": str(self.venv), "SAGEMAKER_BASE_DIR": str(self.root / "ml")}
        found = host_checks.check_host(Devices(8, 8, num_gpus=1), Cluster("test", ("a",), "a"), environ, str(self.root))
        return [finding for finding in found if "GPU" in finding.what or "driver" in finding.what]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path).file("dev/nvidia0")


@pytest.mark.parametrize(("text", "version"), [(OLD, "535.183.01"), (OPEN, "580.65.06"), ("", ""), ("x", "")])
def test_the_drivers_version_is_read(host: Host, text: str, version: str) -> None:
    assert host_checks.nvidia_driver(str(host.file("proc/driver/nvidia/version", text).root)) == version


@pytest.mark.parametrize(
    ("package", "text", "needs"),
    [
        ("nvidia_cuda_runtime-13.2.86", OLD, "580"),
        ("nvidia_cuda_runtime-13.2.86", OPEN, ""),
        ("nvidia_cuda_runtime_cu12-12.8.90", OLD, ""),
        ("nvidia_cuda_runtime_cu12-12.8.90", OLD.replace("535.183.01", "470.57.02"), "525"),
        ("torch-2.13.0", OLD, ""),
        ("nvidia_cuda_runtime-13.2.86", "", ""),
    ],
)
def test_a_driver_too_old_for_the_images_cuda_is_an_error(host: Host, package: str, text: str, needs: str) -> None:
    found = host.image(package).file("proc/driver/nvidia/version", text).find()
    assert [finding.is_error for finding in found] == ([True] if needs else [])
    assert all(f"needs {needs} or newer" in finding.what for finding in found)


def test_a_too_old_driver_says_which_images_it_could_run(host: Host) -> None:
    [finding] = host.image("nvidia_cuda_runtime-13.2.86").file("proc/driver/nvidia/version", OLD).find()
    assert "an image of CUDA 11 or 12" in finding.remedy


def test_a_driver_of_gpus_that_the_container_was_not_given_does_not_matter(tmp_path: Path) -> None:
    host = Host(tmp_path).image("nvidia_cuda_runtime-13.2.86").file("proc/driver/nvidia/version", OLD)
    assert host.find() == []


def test_an_image_that_brings_its_own_user_mode_driver_may_be_newer(host: Host) -> None:
    host.image("nvidia_cuda_runtime-13.2.86").file("usr/local/cuda/compat/libcuda.so.1")
    assert host.file("proc/driver/nvidia/version", OLD).find() == []


def test_a_gpu_that_the_driver_does_not_list_or_excludes_is_named(host: Host) -> None:
    host.file("proc/driver/nvidia/version", OPEN).file("dev/nvidia1").file("dev/nvidia2").file("dev/nvidiactl")
    host.gpu(0).gpu(2, excluded="Yes")
    found = host.find()
    assert [finding.what.split(" (")[0] for finding in found] == ["GPU 1", "GPU 2"]
    assert all(finding.is_error for finding in found)


def test_gpus_that_answer_are_no_finding(host: Host) -> None:
    assert host.file("proc/driver/nvidia/version", OPEN).gpu(0).gpu(1).find() == []


def test_what_the_job_cannot_work_with_ends_it_unless_it_is_only_warned_of() -> None:
    findings = [
        host_checks.HostFinding("small", "grow"),
        host_checks.HostFinding("old driver", "update it", is_error=True),
    ]
    with pytest.raises(LaunchError, match=r"preflight: old driver; update it \(DLC_PREFLIGHT=warn goes on\)") as error:
        host_checks.refuse_errors(findings, {})
    assert error.value.exit_code == CONFIG
    host_checks.refuse_errors(findings, {"DLC_PREFLIGHT": "warn"})
    host_checks.refuse_errors(findings[:1], {})


def test_an_error_of_one_host_is_an_error_on_every_host() -> None:
    same = {
        "image": "",
        "hosts": "",
        "groups": "",
        "strategy": "",
        "distributed over": "",
        "processes": 1,
        "efa": False,
    }
    known = {
        "a": {**same, "traps": [], "errors": []},
        "b": {**same, "traps": [], "errors": [["old driver", "update it"]]},
    }
    [finding] = consistency.compare_hosts(known)
    assert (finding.what, finding.remedy, finding.is_error) == ("b: old driver", "update it", True)


def test_a_disk_without_room_for_a_checkpoint_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("model", "output"):
        (tmp_path / folder).mkdir()
    full = os.statvfs_result((4096, 4096, 1 << 20, 1 << 10, 1 << 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: full)
    environ = {"SAGEMAKER_BASE_DIR": str(tmp_path)}
    found = host_checks.check_host(Devices(8, 8), Cluster("test", ("a",), "a"), environ, str(tmp_path))
    [line] = [str(finding) for finding in found if "are free" in finding.what]
    assert line.startswith(f"4 MiB are free on {tmp_path}/model, {tmp_path}/output")
