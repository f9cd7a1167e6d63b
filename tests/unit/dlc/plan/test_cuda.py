"""What an image asks of a GPU host's driver, and NVIDIA's newer user library for older drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import UsageError
from dlc.plan.contexts import Host, Pinned
from dlc.plan.plan import make_plan
from dlc.plan.targets import Target
from harness.specimen import PYTORCH, PYTORCH_PATH, changed, locked, unlocked

ROOT = find_root(Path(__file__).parent)
URL, SHA256 = "https://vendor.invalid/cuda-compat-12-9.deb", "0" * 64
COMPAT = [f"cuda_compat.url={URL}", f"cuda_compat.sha256={SHA256}"]


def target(device: str, *sets: str) -> Target:
    """The image's own target in a buildspec where it is for this device."""
    text = PYTORCH.replace("variants:", f"device: {device}\nvariants:")
    if device != "cpu":
        text = text.replace("torch==2.13.0+cpu", "torch==2.13.0")
    tree = locked(changed(unlocked(), PYTORCH_PATH, text))
    plan = make_plan(tree, ["pytorch-*"], sets)
    return plan.target(plan.selected[0])


@pytest.mark.parametrize(("device", "expected"), [("cu102", "10.0"), ("cu118", "11.0"), ("cu132", "13.0")])
def test_a_driver_is_asked_for_the_major_version_alone(device: str, expected: str) -> None:
    assert target(device).args["CUDA_REQUIRED"] == f"cuda>={expected}"


def test_with_a_newer_user_library_a_driver_of_the_major_before_will_do() -> None:
    assert target("cu128", *COMPAT).args["CUDA_REQUIRED"] == "cuda>=11.0"


def test_an_image_without_cuda_asks_nothing_of_a_host() -> None:
    image = target("cpu")
    assert image.stage == "image"
    assert "CUDA_REQUIRED" not in image.args
    assert image.args["CUDA_MAJOR"] == "0"


def test_the_newer_user_library_comes_by_its_hash() -> None:
    assert target("cu128").contexts["cuda-compat"] == Host("nothing")
    assert target("cu128", *COMPAT).contexts["cuda-compat"] == Pinned(SHA256, URL)
    assert target("cu128", *COMPAT, "cuda_compat.url=file:///mirror").key == target("cu128", *COMPAT).key
    assert target("cu128", *COMPAT, f"cuda_compat.sha256={'1' * 64}").key != target("cu128", *COMPAT).key


@pytest.mark.parametrize(
    ("device", "sets", "expected"),
    [
        ("cu128", COMPAT[:1], "cuda_compat.sha256: expected the address of NVIDIA's package and its sha256"),
        ("cu128", COMPAT[1:], "cuda_compat.url: expected the address of NVIDIA's package and its sha256"),
        ("cpu", COMPAT, "cuda_compat: expected an image with CUDA [(]device: cu...[)], found device cpu"),
    ],
)
def test_half_a_user_library_and_one_without_cuda_are_refused(device: str, sets: list[str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        target(device, *sets)


def test_every_cuda_image_is_made_for_nvidias_container_runtime_and_no_cpu_image_is() -> None:
    tree = read_tree(ROOT)
    plan = make_plan(tree)
    for variant in load_variants(tree):
        image = plan.target(variant.id)
        assert (image.stage == "cuda-image") == variant.settings.device.startswith("cu1"), variant.id
