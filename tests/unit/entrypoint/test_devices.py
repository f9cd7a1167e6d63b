"""Hardware as /dev, /proc and /sys show it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launch.discovery.devices import Devices, detect_devices


def machine(root: Path, *nodes: str, **contents: str) -> Path:
    for node in (*nodes, *contents):
        path = root / node.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents.get(node, ""))
    return root


def adapter(root: Path, name: str, vendor: str, device: str) -> None:
    folder = root / f"sys/class/infiniband/{name}/device"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{device}\n")


def found(root: Path, **environ: str) -> Devices:
    return detect_devices(environ, str(root))


def test_a_machine_with_nothing_has_one_process_per_host(tmp_path: Path) -> None:
    devices = found(tmp_path)
    assert (devices.num_gpus, devices.num_neurons, devices.efa, devices.accelerators) == (0, 0, False, 1)
    assert devices.num_cpus == os.cpu_count()


def test_gpus_are_the_device_nodes_that_this_container_was_given(tmp_path: Path) -> None:
    machine(tmp_path, "dev/nvidia0", "dev/nvidia3", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-caps")
    assert found(tmp_path).num_gpus == 2


@pytest.mark.parametrize(
    ("listed", "count"), [("0", 1), ("1,0", 2), ("", 0), ("-1", 0), ("0,-1,1", 1), ("GPU-8f,MIG-2", 2), ("0,1,2,3", 2)]
)
def test_gpus_that_cuda_will_not_see_do_not_count(tmp_path: Path, listed: str, count: int) -> None:
    machine(tmp_path, "dev/nvidia0", "dev/nvidia1")
    assert found(tmp_path, CUDA_VISIBLE_DEVICES=listed).num_gpus == count


def test_neuron_cores_are_counted_not_devices(tmp_path: Path) -> None:
    machine(tmp_path, "dev/neuron0", "dev/neuron1")
    assert found(tmp_path).num_neurons == 4
    cores = "sys/devices/virtual/neuron_device/neuron{}/core_count"
    machine(tmp_path, **{cores.format(0): "8\n", cores.format(1): "8\n"})
    assert found(tmp_path).num_neurons == 16


def test_a_driver_that_tells_no_number_of_neuron_cores_is_as_one_that_tells_nothing(tmp_path: Path) -> None:
    machine(tmp_path, "dev/neuron0", **{"sys/devices/virtual/neuron_device/neuron0/core_count": "-EINVAL\n"})
    assert found(tmp_path).num_neurons == 2


def test_efa_needs_its_adapter_and_its_device_node(tmp_path: Path) -> None:
    adapter(tmp_path, "rdmap0s6", "0x1d0f", "0xefa1")
    assert not found(tmp_path).efa
    machine(tmp_path, "dev/infiniband/uverbs0")
    assert (found(tmp_path).efa, found(tmp_path).efa_rdma) == (True, True)


def test_the_first_generation_of_efa_reads_no_remote_memory(tmp_path: Path) -> None:
    adapter(tmp_path, "efa_0", "0x1d0f", "0xefa0")
    machine(tmp_path, "dev/infiniband/uverbs0")
    assert (found(tmp_path).efa, found(tmp_path).efa_rdma) == (True, False)


def test_another_vendors_adapter_is_infiniband(tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_0", "0x15b3", "0x101b")
    machine(tmp_path, "dev/infiniband/uverbs0")
    assert (found(tmp_path).efa, found(tmp_path).infiniband) == (False, True)


def test_stated_hardware_comes_before_detected(tmp_path: Path) -> None:
    machine(tmp_path, "dev/nvidia0")
    devices = found(tmp_path, DLC_NUM_GPUS="8", DLC_NUM_CPUS="96", DLC_NUM_NEURONS="0", DLC_EFA="1")
    assert (devices.num_gpus, devices.num_cpus, devices.usable_cpus, devices.efa_rdma) == (8, 96, 96, True)


@pytest.mark.parametrize(
    "quota",
    [
        {"sys/fs/cgroup/cpu.max": "150000 100000"},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
    ],
)
def test_a_cgroups_quota_bounds_the_usable_cpus_rounded_up(tmp_path: Path, quota: dict[str, str]) -> None:
    assert found(machine(tmp_path, **quota)).usable_cpus == min(2, len(os.sched_getaffinity(0)))


def test_an_unlimited_cgroup_leaves_all_cpus(tmp_path: Path) -> None:
    assert found(machine(tmp_path, **{"sys/fs/cgroup/cpu.max": "max 100000"})).usable_cpus == len(
        os.sched_getaffinity(0)
    )


def test_interfaces_are_listed(tmp_path: Path) -> None:
    assert found(machine(tmp_path, "sys/class/net/eth0", "sys/class/net/lo")).interfaces == ("eth0", "lo")
