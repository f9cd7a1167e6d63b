"""buildspec.lock_check: two CUDA majors or a second framework are refused, with the chain of requirements."""

from __future__ import annotations

import pytest

from dlc.buildspec.lockfile import (
    BUILDSPEC,
    conflict_error,
    cuda_major,
    cuda_version,
    explain_other_cuda,
    find_chain,
    find_conflicts,
    parse_requirers,
    parse_versions,
)
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import Tree
from dlc.core.errors import LockError
from dlc.plan.plan import make_plan
from harness.specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, locked, pinned, specimen, unlocked

ANNOTATED = """\
nvidia-cublas-cu12==12.8.4.1  # via nvidia-cudnn-cu12, torch
nvidia-cudnn-cu12==9.10.2.21 ; sys_platform == 'linux'  # via torch
nvidia-cublas==13.4.1.3   # via cuda-thing
cuda-thing==1.0           # via -c /tmp/x.txt, new.tools
new-tools==2.0            # via -r -
torch==2.9.1              # via -r -
"""
VERSIONS = {
    "torch": "2.9.1", "nvidia-cublas-cu12": "12.8.4.1", "nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cublas": "13.4.1.3",
    "cuda-thing": "1.0", "new-tools": "2.0",
}  # fmt: skip


def with_package(tree: Tree, identifier: str, pin: str) -> Tree:
    (variant,) = load_variants(tree, [identifier])
    before = parse_versions(tree[f"{variant.lock_folder}/training.txt"].data.decode())
    pins = [*(f"{name}=={version}" for name, version in before.items()), pin]
    return pinned(tree, variant.lock_folder, "training.txt", "".join(f"{each}\n" for each in pins))


@pytest.mark.parametrize(
    ("name", "version", "major"),
    [
        ("nvidia-cublas-cu12", "12.8.4.1", "12"),
        ("nvidia-nccl-cu11", "2.20.5", "11"),
        ("nvidia-cublas", "13.4.1.3", "13"),
        ("nvidia-cuda-runtime", "13.2.86", "13"),
        ("nvidia-cufft", "12.2.0.57", ""),  # of CUDA 13: its own version is another
        ("jax-cuda12-pjrt", "0.8.0", "12"),
        ("cupy-cuda11x", "13.0", "11"),
        ("cuda-toolkit", "13.2.2", "13"),
        ("torch", "2.9.1+cu128", "12"),
        ("torch", "1.10.2+cu102", "10"),
        ("torch", "2.13.0+cpu", ""),
        ("nvidia-ml-py", "13.590.44", ""),
        ("cuda-pathfinder", "1.9.0", ""),
    ],
)
def test_the_cuda_major_of_a_package_is_in_its_name_or_its_version(name: str, version: str, major: str) -> None:
    assert cuda_major(name, version) == major


@pytest.mark.parametrize(
    "versions",
    [
        {"torch": "2.9.1", "nvidia-cublas-cu12": "12.8.4.1", "jax-cuda12-pjrt": "0.8.0"},
        {"torch": "2.15.0", "nvidia-cublas": "13.4.1.3", "nvidia-cudnn-cu13": "9.26.0.51", "nvidia-cufft": "12.2.0.57"},
        {"tensorflow": "2.21.0", "keras": "3.12.0"},
        {},
    ],
)
def test_one_cuda_and_one_framework_are_sound(versions: dict[str, str]) -> None:
    assert find_conflicts(versions) == []
    assert conflict_error(versions, {}) is None


def test_two_cuda_majors_are_refused_with_both_chains_from_the_buildspec() -> None:
    error = conflict_error(VERSIONS, parse_requirers(ANNOTATED))
    assert error is not None
    assert "expected one CUDA major" in error.message
    assert "  torch==2.9.1 -> nvidia-cublas-cu12==12.8.4.1 (CUDA 12)" in error.message.splitlines()
    expected = "  new-tools==2.0 -> cuda-thing==1.0 -> nvidia-cublas==13.4.1.3 (CUDA 13)"
    assert expected in error.message.splitlines()


@pytest.mark.parametrize("second", ["tensorflow", "tensorflow-cpu"])
def test_a_second_framework_is_refused_with_who_brought_it(second: str) -> None:
    versions = {"torch": "2.9.1", "trainer": "1.0", second: "2.21.0"}
    error = conflict_error(versions, {"torch": [BUILDSPEC], "trainer": [BUILDSPEC], second: ["trainer"]})
    assert error is not None
    assert f"  trainer==1.0 -> {second}==2.21.0" in error.message.splitlines()


def test_two_builds_of_one_framework_are_refused_as_well() -> None:
    [(expected, packages)] = find_conflicts({"tensorflow": "2.21.0", "tensorflow-cpu": "2.21.0"})
    assert (expected, set(packages)) == ("one framework", {"tensorflow", "tensorflow-cpu"})


def test_the_shortest_chain_is_shown_and_a_circle_ends() -> None:
    assert find_chain("c", {"c": ["b", "a"], "b": ["a"], "a": [BUILDSPEC]}) == ["a", "c"]
    assert find_chain("a", {"a": ["b"], "b": ["a"]}) == ["a"]


@pytest.mark.parametrize(
    ("identifier", "pin", "found"),
    [
        (TENSORFLOW_ID, "torch==2.13.0", "expected one framework, found torch==2.13.0 and tensorflow-cpu==2.21.0"),
        (TORCH_ID, "tf-nightly==2.22.0", "expected one framework, found torch==2.13.0+cpu and tf-nightly==2.22.0"),
    ],
)
def test_a_committed_lock_with_two_frameworks_is_no_plan(identifier: str, pin: str, found: str) -> None:
    with pytest.raises(LockError) as caught:
        make_plan(with_package(specimen(), identifier, pin))
    assert found in caught.value.message
    assert caught.value.remedy == f"dlc lock {identifier} shows what requires them"


def test_a_committed_lock_with_two_cuda_majors_is_no_plan_of_that_image_only() -> None:
    tree = specimen()
    for pin in ("nvidia-cublas-cu12==12.8.4.1", "nvidia-nccl-cu13==2.30.7"):
        tree = with_package(tree, TORCH_ID, pin)
    with pytest.raises(LockError, match=r"found nvidia-cublas-cu12==12\.8\.4\.1 \(CUDA 12\) and nvidia-nccl-cu13"):
        make_plan(tree, [TORCH_ID])
    assert make_plan(tree, [TENSORFLOW_ID]).selected == (TENSORFLOW_ID,)


@pytest.mark.parametrize(
    ("versions", "device"),
    [
        ({"torch": "2.6.0", "nvidia-cuda-runtime-cu12": "12.4.127"}, "cu124"),
        ({"torch": "2.15.0", "nvidia-cuda-runtime": "13.2.86"}, "cu132"),
        ({"torch": "1.13.1+cu117"}, "cu117"),
        ({"torch": "2.13.0+cpu"}, "cpu"),
        ({"tensorflow-cpu": "2.15.1"}, "cpu"),
        ({"torch": "1.10.2"}, ""),
        ({"somebody": "1.0+local"}, ""),
    ],
)
def test_the_cuda_version_is_that_of_its_runtime_or_of_a_local_version(versions: dict[str, str], device: str) -> None:
    assert cuda_version(versions)[0] == device
    assert explain_other_cuda(device or "cu102", versions) == ""
    assert bool(explain_other_cuda("cu118", versions)) is bool(device)


@pytest.mark.parametrize(("device", "refused"), [("cu124", False), ("cu128", True), ("cpu", True)])
def test_a_device_with_another_cuda_than_the_lock_s_is_refused_by_the_plan(device: str, refused: bool) -> None:
    """Major and minor: torch for CUDA 12.4 is none for 12.8, and none for an image without CUDA."""
    text = PYTORCH.replace("2.13.0+cpu", "2.13.0").replace("variants:", f"device: {device}\nvariants:")
    tree = locked(changed(unlocked(), PYTORCH_PATH, text))
    (variant,) = load_variants(tree, ["pytorch-*"])
    tree = pinned(tree, variant.lock_folder, "framework.txt", "torch==2.13.0\nnvidia-cuda-runtime-cu12==12.4.127\n")
    if not refused:
        assert make_plan(tree, [variant.id])
        return
    with pytest.raises(LockError) as caught:
        make_plan(tree, [variant.id])
    expected = f"expected packages for device {device}, found nvidia-cuda-runtime-cu12==12.4.127, which is for cu124"
    assert caught.value.message == f"{variant.lock_folder}: {expected}"
