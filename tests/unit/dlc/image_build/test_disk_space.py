"""disk_space: what a build may need is known before it starts, and a build that cannot fit does not start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.core.errors import DiskError
from dlc.engine.docker_client import Engine
from dlc.image_build import disk_space
from harness.specimen import TENSORFLOW_ID, TORCH_ID, specimen

GB = disk_space.GB


def needed(*sets: str, existing: tuple[str, ...] = (), containerd_store: bool = True) -> disk_space.Need:
    variants = load_variants(specimen(), [TORCH_ID, TENSORFLOW_ID], sets)
    return disk_space.estimate_need(variants, existing, containerd_store=containerd_store)


def refs() -> dict[str, str]:
    return {variant.id: variant.ref for variant in load_variants(specimen())}


def test_an_image_may_take_its_budget_in_each_copy() -> None:
    assert needed("budget.gigabytes=2.5").images == {TORCH_ID: 7.5 * GB, TENSORFLOW_ID: 7.5 * GB}
    assert needed("budget.gigabytes=2.5", containerd_store=False).images[TORCH_ID] == 5 * GB
    assert needed("budget.gigabytes=2.5").total == 15 * GB + disk_space.WORK


def test_an_image_that_the_engine_has_takes_nothing_and_no_image_no_work_either() -> None:
    assert set(needed(existing=(refs()[TORCH_ID],)).images) == {TENSORFLOW_ID}
    assert needed(existing=tuple(refs().values())).total == 0


def test_a_build_that_does_not_fit_is_refused_with_expected_found_and_remedy(tmp_path: Path) -> None:
    need = needed("budget.gigabytes=2.5")
    with pytest.raises(DiskError) as caught:
        disk_space.require_room(need, tmp_path, free=10 * GB)
    message = str(caught.value)
    assert f"{tmp_path}: expected {need.total / GB:.2f} GB free" in message
    assert "found 10.00 GB" in message
    assert f"{TORCH_ID} 7.50 GB" in message
    assert "--no-disk-check" in caught.value.remedy


def test_a_build_that_fits_is_let_through(tmp_path: Path) -> None:
    disk_space.require_room(needed(), tmp_path, free=needed().total)
    disk_space.require_room(disk_space.Need({}), tmp_path, free=0)


def test_an_engine_on_another_host_has_a_disk_that_cannot_be_seen() -> None:
    assert disk_space.data_folder(Engine("tcp://127.0.0.1:1", "DOCKER_HOST", "1", True)) is None


def test_an_engine_of_this_host_has_its_data_where_it_says(tmp_path: Path) -> None:
    engine = Engine("unix:///run/docker.sock", "DOCKER_HOST", "1", True, data_root=str(tmp_path))
    assert disk_space.data_folder(engine) == tmp_path
    assert disk_space.data_folder(replace(engine, data_root=str(tmp_path / "of another host"))) is None
