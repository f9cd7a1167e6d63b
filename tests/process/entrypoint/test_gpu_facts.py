"""What a GPU host's launcher says of its GPUs, by a program that prints what nvidia-smi does there."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.job_folder import TORCHRUN, JobFolder, hosts
from launch.plan.request import read_request
from launch.preflight import gpus

# nvidia-smi --query-gpu=name,memory.total,driver_version,compute_cap --format=csv,noheader,nounits
H200 = "NVIDIA H200, 143771, 580.159.04, 9.0\n" * 2
V100 = "Tesla V100-SXM2-16GB, 16384, 535.183.01, 7.0\n"
MIG = "NVIDIA A100-SXM4-80GB, [N/A], 535.183.01, 8.0\n"
OLD_V100 = "Tesla V100-SXM2-16GB, 16160, 450.80.02\n"  # without the last field, which that driver refuses
REFUSES = 'case "$1" in *compute_cap*) echo \'Field "compute_cap" is not a valid field to query.\'; exit 2;; esac\n'
FAILS = "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\n"


class Host:
    """A job on a host with two GPUs: its nvidia-smi, its /proc, and its image's CUDA."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.job = JobFolder(folder / "ml").hyperparameters().code()
        self.job.env(PATH=f"{folder / 'bin'}:/usr/bin:/bin", DLC_NUM_GPUS="2", DLC_VENV=str(self.root / "opt/venv"))
        self.programs = folder / "bin"
        self.programs.mkdir()

    def smi(self, script: str) -> Host:
        (self.programs / "nvidia-smi").write_text(f"#!/bin/sh\n{script}")
        (self.programs / "nvidia-smi").chmod(0o755)
        return self

    def prints(self, text: str, before: str = "") -> Host:
        return self.smi(f"{before}cat <<'END'\n{text}END\n")

    def file(self, path: str, text: str = "") -> Host:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self

    def cuda(self, package: str) -> Host:
        return self.file(f"opt/venv/lib/python3.11/site-packages/{package}.dist-info/METADATA")

    def describe(self) -> gpus.Gpus | None:
        return gpus.describe_gpus(read_request(self.job.environ), str(self.root))

    def lines(self) -> list[str]:
        found = self.describe()
        return found.lines() if found else []


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("script", "package", "line"),
    [
        (
            H200,
            "nvidia_cuda_runtime-13.2.86",
            "GPUs: 2 x NVIDIA H200, 140 GiB, compute capability 9.0; driver 580.159.04, fits the image's CUDA 13",
        ),
        (
            V100,
            "nvidia_cuda_runtime-13.2.86",
            "GPUs: 1 x Tesla V100-SXM2-16GB, 16 GiB, compute capability 7.0; driver 535.183.01, too old for the image's"
            " CUDA 13",
        ),
        (MIG, "torch-2.13.0", "GPUs: 1 x NVIDIA A100-SXM4-80GB, compute capability 8.0; driver 535.183.01"),
    ],
)
def test_name_memory_capability_driver_and_fit_are_said(host: Host, script: str, package: str, line: str) -> None:
    assert host.cuda(package).prints(script).lines() == [line]


def test_a_driver_that_does_not_know_compute_capabilities_is_asked_without(host: Host) -> None:
    assert host.prints(OLD_V100, before=REFUSES).lines() == ["GPUs: 1 x Tesla V100-SXM2-16GB, 16 GiB; driver 450.80.02"]


@pytest.mark.parametrize("script", ["", FAILS, "exec sleep 600\n"], ids=["none", "fails", "hangs"])
def test_without_an_answer_of_nvidia_smi_the_driver_s_own_files_are_read(
    host: Host, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "SECONDS", 0.2)
    if script:
        host.smi(script)
    for number in (0, 1):
        host.file(f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 5\n")
    host.file("proc/driver/nvidia/version", OPEN).cuda("nvidia_cuda_runtime-13.2.86")
    began = time.monotonic()
    assert host.lines() == ["GPUs: 2 x NVIDIA H200; driver 580.65.06, fits the image's CUDA 13"]
    assert time.monotonic() - began < 60  # a bound on a hang


def test_a_driver_that_hangs_is_asked_once(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SECONDS", 2.0)
    host.smi(f"echo asked >>{tmp_path / 'asked'}\nexec sleep 600\n")
    assert host.describe() is None
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_host_without_a_driver_says_nothing(host: Host) -> None:
    assert host.describe() is None


def test_a_job_of_several_hosts_says_what_nccl_has_to_talk_with(host: Host) -> None:
    host.job.config("resourceconfig", hosts("algo-1", "algo-2")).hyperparameters(**TORCHRUN)
    host.job.env(DLC_EFA="1", NCCL_ALGO="Ring")
    assert host.prints(H200).lines()[1] == (
        "NCCL: EFA with RDMA between hosts; FI_EFA_USE_DEVICE_RDMA=1, FI_PROVIDER=efa, NCCL_ALGO=Ring, NCCL_DEBUG=WARN,"
        " NCCL_PROTO=simple, NCCL_SOCKET_IFNAME=eth0; NCCL_DEBUG=INFO makes it print what it chose"
    )


@pytest.mark.parametrize("verb", ["--explain", "--explain=json"])
def test_the_launcher_explains_the_gpus_of_its_host(host: Host, verb: str) -> None:
    command = [sys.executable, "-I", "-S", "src/entrypoint/launcher.py", verb]
    environ = host.prints(H200).job.environ
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert "NVIDIA H200" in done.stdout
    assert "580.159.04" in done.stdout
