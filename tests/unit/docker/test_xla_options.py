"""The GPU client of PyTorch/XLA takes the devices, ranks and memory that torch_xla's own plug-in took."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from dlc.core.checkout import find_root

FILE = find_root(Path(__file__).parent) / "docker/scripts/xla-cuda/dlc_xla_cuda/options.py"
TORCHRUN = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "algo-1"}
SPAWN = {"PJRT_LOCAL_PROCESS_RANK": "3", "PJRT_LOCAL_PROCESS_COUNT": "4"}


@pytest.fixture(scope="module")
def plugin() -> Any:
    spec = importlib.util.spec_from_file_location("options", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_process_for_each_gpu_sees_its_own(plugin: Any) -> None:
    assert plugin.client_options(TORCHRUN)["visible_devices"] == [1]


@pytest.mark.parametrize("environ", [{}, {**TORCHRUN, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}])
def test_a_process_that_is_alone_on_its_host_sees_all_gpus_as_spmd_needs(plugin: Any, environ: dict[str, str]) -> None:
    assert "visible_devices" not in plugin.client_options(environ)


def test_ranks_are_those_of_torchrun(plugin: Any) -> None:
    options = plugin.client_options(TORCHRUN)
    assert (options["node_id"], options["num_nodes"]) == (5, 8)


def test_processes_of_torch_xlas_own_spawn_are_the_whole_world_where_nothing_else_is_said(plugin: Any) -> None:
    assert plugin.world(SPAWN) == (3, 4, 3, 4)
    assert plugin.client_options(SPAWN)["visible_devices"] == [3]


def test_torch_xlas_own_variables_go_before_those_of_torchrun(plugin: Any) -> None:
    assert plugin.world({**TORCHRUN, **SPAWN}) == (3, 4, 5, 8)


@pytest.mark.parametrize(("text", "expected"), [("1", True), ("true", True), ("0", False), ("False", False)])
def test_memory_is_taken_at_once_or_as_needed_as_the_variable_says(plugin: Any, text: str, expected: bool) -> None:
    assert plugin.client_options({"PJRT_ALLOCATOR_PREALLOCATE": text})["preallocate"] is expected


def test_the_allocator_of_cuda_is_used_where_it_is_asked_for(plugin: Any) -> None:
    assert plugin.client_options({"PJRT_ALLOCATOR_CUDA_ASYNC": "1"})["allocator"] == "cuda_async"
    assert "allocator" not in plugin.client_options({"PJRT_ALLOCATOR_CUDA_ASYNC": "0"})


def test_memory_is_xlas_own_choice_where_nothing_is_said(plugin: Any) -> None:
    assert plugin.client_options({}) == {"platform_name": "cuda", "node_id": 0, "num_nodes": 1}


def test_a_share_of_the_memory_is_a_number(plugin: Any) -> None:
    assert plugin.client_options({"PJRT_ALLOCATOR_FRACTION": "0.5"})["memory_fraction"] == 0.5


def test_a_switch_that_is_none_names_its_variable(plugin: Any) -> None:
    with pytest.raises(ValueError, match="PJRT_ALLOCATOR_PREALLOCATE: expected 0 or 1, found 'maybe'"):
        plugin.client_options({"PJRT_ALLOCATOR_PREALLOCATE": "maybe"})
