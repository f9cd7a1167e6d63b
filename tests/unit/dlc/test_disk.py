"""build.disk: what a build takes is said before it starts, and a build that cannot fit does not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from specimen import TENSORFLOW_ID, TORCH_ID, changed, specimen

from dlc.build import disk
from dlc.buildspec.locked import header
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import Tree
from dlc.core.errors import DiskError
from dlc.engine.connection import Engine
from dlc.plan.plan import make_plan

GB = disk.GB


def sized(tree: Tree, identifier: str, download: int) -> Tree:
    """The tree with one image's lock naming files of that many bytes."""
    (variant,) = load_variants(tree, [identifier])
    path = f"{variant.lock_folder}/framework.txt"
    rest = tree[path].data.decode().split("\n", 2)[2]
    return changed(tree, path, header(variant.lock_digest(), download) + rest)


def prediction(tree: Tree, existing: tuple[str, ...] = (), *, containerd_store: bool = True) -> disk.Prediction:
    return disk.predict(make_plan(tree), tree, existing, containerd_store=containerd_store)


@pytest.mark.parametrize(
    ("download", "unpacked"), [(0, disk.SYSTEM), (GB // 2, disk.SYSTEM + 2 * GB), (GB, disk.SYSTEM + 2.85 * GB)]
)
def test_python_unpacks_to_more_than_what_cuda_adds(download: int, unpacked: float) -> None:
    assert disk.unpacked(download) == pytest.approx(unpacked)


def test_larger_locks_take_more_and_their_sizes_are_in_the_lock() -> None:
    found = prediction(sized(specimen(), TORCH_ID, 4 * GB)).images
    assert found[TORCH_ID] > found[TENSORFLOW_ID] >= 3 * disk.SYSTEM


def test_an_image_that_the_engine_has_takes_nothing_and_its_base_neither() -> None:
    tags = {name: make_plan(specimen()).target(name).tags[0] for name in (TORCH_ID, TENSORFLOW_ID)}
    assert set(prediction(specimen(), (tags[TORCH_ID],)).images) == {TENSORFLOW_ID}
    assert prediction(specimen(), tuple(tags.values())).total == 0


def test_the_classic_store_keeps_a_copy_less() -> None:
    tree = specimen()
    assert prediction(tree).images[TORCH_ID] * 2 == prediction(tree, containerd_store=False).images[TORCH_ID] * 3


def test_images_on_one_base_share_its_work() -> None:
    assert prediction(specimen()).work == disk.WORK


def test_a_build_that_does_not_fit_is_refused_with_expected_found_and_remedy(tmp_path: Path) -> None:
    needs = prediction(sized(specimen(), TORCH_ID, 4 * GB))
    with pytest.raises(DiskError) as caught:
        disk.require_room(needs, tmp_path, free=10 * GB)
    message = str(caught.value)
    assert f"{tmp_path}: expected {needs.total / GB:.1f} GB free" in message
    assert "found 10.0 GB" in message
    assert message.index(TORCH_ID) < message.index(TENSORFLOW_ID)  # the largest first
    assert "docker builder prune" in caught.value.remedy


def test_a_build_that_fits_is_let_through(tmp_path: Path) -> None:
    needs = prediction(specimen())
    disk.require_room(needs, tmp_path, free=needs.total)


def test_an_engine_on_another_host_has_a_disk_that_cannot_be_seen() -> None:
    assert disk.data_folder(Engine("tcp://127.0.0.1:1", "DOCKER_HOST", "1", True)) is None
