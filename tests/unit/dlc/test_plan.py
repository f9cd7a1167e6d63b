"""The plan holds every target once, parents first, with a key that changes when and only when its content does."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specimen import PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, locked, specimen, unlocked

from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import LockError, RecipeError, SelectorError, SpecError
from dlc.debian import mmdebstrap
from dlc.plan.plan import Plan, make_plan
from dlc.plan.targets import KEY_LABEL

BASE_ID = "base-bookworm-py311"


def keys(tree: Tree) -> dict[str, str]:
    return {target.id: target.key for target in make_plan(tree).targets}


def differing(tree: Tree) -> set[str]:
    """Ids whose key is another than the specimen's."""
    before, after = keys(specimen()), keys(tree)
    return {name for name in before if before[name] != after[name]}


def append(path: str, text: str = "# changed\n") -> Tree:
    tree = specimen()
    return changed(tree, path, tree[path].data.decode() + text)


def test_parents_come_first_and_are_shared() -> None:
    plan = make_plan(specimen())
    assert [target.id for target in plan.targets] == ["rootfs-bookworm", BASE_ID, TORCH_ID, TENSORFLOW_ID]
    assert plan.selected == (TORCH_ID, TENSORFLOW_ID)
    for index, target in enumerate(plan.targets):
        assert target.parent is None or target.parent in [earlier.id for earlier in plan.targets[:index]]


def test_contexts_arguments_tags_and_labels_follow_from_the_settings() -> None:
    target = make_plan(specimen(), ["pytorch-*"]).target(TORCH_ID)
    assert target.context == f"repo:docker/pytorch/locks/{TORCH_ID}"
    assert target.contexts == {
        "base": f"target:{BASE_ID}",
        "scripts": "repo:docker/scripts",
        "debian": "repo:docker/debian/bookworm",
        "ca": "host:ca",
        "entrypoint": "repo:src/entrypoint",
        "tools": "host:tools",
        "wheels": "host:wheels",
        "efa-software": "host:nothing",
    }
    assert target.args == {
        "OS_PACKAGES": "g++",
        "BUILD_PACKAGES": "gcc",
        "EFA_SOURCE": "none",
        **dict.fromkeys(("EFA_VERSION", "EFA_PACKAGES", "EFA_BUILD_PACKAGES"), ""),
    }
    assert target.tags == ("dlc/pytorch:2.13-training-cpu-py311",)
    assert target.labels["org.dlc.framework.version"] == "2.13.0+cpu"
    assert target.labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert target.labels[KEY_LABEL] == target.key
    assert re.fullmatch("[0-9a-f]{64}", target.key)


def test_a_base_that_the_user_names_replaces_ours_and_has_its_own_name() -> None:
    plan = make_plan(specimen(), ["pytorch-*"], ["base.image=registry:5000/Debian:12.1@sha256:ab"])
    assert [target.id for target in plan.targets] == ["base-registry-5000-debian-12.1-sha256-ab-py311", TORCH_ID]
    base = plan.targets[0]
    assert base.contexts["rootfs"] == "image:registry:5000/Debian:12.1@sha256:ab"
    assert base.parent is None
    assert plan.target(TORCH_ID).labels["org.dlc.os"] == "registry:5000/Debian:12.1@sha256:ab"
    assert plan.target(TORCH_ID).key != keys(specimen())[TORCH_ID]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/entrypoint/launcher.py", {TORCH_ID, TENSORFLOW_ID}),
        ("docker/pytorch/Dockerfile", {TORCH_ID}),
        ("docker/scripts/install.sh", {BASE_ID, TORCH_ID, TENSORFLOW_ID}),
        ("docker/base/Dockerfile", {BASE_ID, TORCH_ID, TENSORFLOW_ID}),
        (PYTORCH_PATH, set()),
        ("buildspec/compat.yml", set()),
    ],
)
def test_a_changed_file_changes_the_keys_of_what_is_built_from_it(path: str, expected: set[str]) -> None:
    assert differing(append(path)) == expected


def test_a_new_a_renamed_and_an_executable_file_change_keys() -> None:
    tree = specimen()
    script = tree["docker/scripts/install.sh"]
    everything = {BASE_ID, TORCH_ID, TENSORFLOW_ID}
    assert differing({**tree, "docker/scripts/new.sh": SourceFile(b"")}) == everything
    assert differing({**tree, "docker/scripts/install.sh": SourceFile(script.data, True)}) == everything
    renamed = {path: file for path, file in tree.items() if file is not script}
    assert differing({**renamed, "docker/scripts/other.sh": script}) == everything


def test_the_way_our_own_base_is_made_is_part_of_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(specimen())
    monkeypatch.setattr(mmdebstrap, "DPKG_OPTIONS", ())
    after = keys(specimen())
    assert all(before[name] != after[name] for name in before)


def test_arguments_and_labels_change_keys_and_the_repository_name_does_not() -> None:
    before = keys(specimen())
    for text, same in [("os_packages=[make]", False), ("labels.a=b", False), ("repository=other", True)]:
        after = make_plan(specimen(), ["pytorch-*"], [text]).target(TORCH_ID).key
        assert (after == before[TORCH_ID]) is same


@settings(max_examples=10)
@given(st.permutations(sorted(specimen())))
def test_the_order_of_files_changes_nothing(order: list[str]) -> None:
    tree = specimen()
    assert keys({path: tree[path] for path in order}) == keys(tree)


def test_two_plans_of_one_tree_are_equal() -> None:
    assert make_plan(specimen()) == make_plan(specimen())
    assert json.dumps(make_plan(specimen()).as_dict()) == json.dumps(make_plan(specimen()).as_dict())


def existing(plan: Plan, **changes: str) -> dict[str, str]:
    refs = {target.tags[0]: target.key for target in plan.targets if target.tags}
    return {**refs, **{ref: key for ref, key in changes.items() if ref in refs}}


def test_without_any_image_everything_is_built() -> None:
    decisions = make_plan(specimen()).decisions({})
    assert [(d.id, d.build) for d in decisions] == [
        ("rootfs-bookworm", True), (BASE_ID, True), (TORCH_ID, True), (TENSORFLOW_ID, True),
    ]  # fmt: skip
    assert decisions[2].why == "no image dlc/pytorch:2.13-training-cpu-py311"


def test_with_equal_keys_nothing_is_built_and_the_plan_without_it_is_empty() -> None:
    plan = make_plan(specimen())
    decisions = plan.decisions(existing(plan))
    assert not any(decision.build for decision in decisions)
    assert all("up to date" in decision.why for decision in decisions if decision.id in plan.selected)
    assert plan.without(plan.selected) == Plan((), ())


def test_with_another_key_that_image_and_its_parents_are_built() -> None:
    plan = make_plan(specimen())
    there = {**existing(plan), "dlc/pytorch:2.13-training-cpu-py311": "0" * 64}
    decisions = {decision.id: decision for decision in plan.decisions(there)}
    assert [name for name, decision in decisions.items() if decision.build] == ["rootfs-bookworm", BASE_ID, TORCH_ID]
    assert "was built from 000000000000" in decisions[TORCH_ID].why
    left = plan.without([TENSORFLOW_ID])
    assert [target.id for target in left.targets] == ["rootfs-bookworm", BASE_ID, TORCH_ID]
    assert left.selected == (TORCH_ID,)


def test_only_the_locks_of_selected_images_must_be_fresh() -> None:
    tree = {path: file for path, file in specimen().items() if "tensorflow/locks" not in path}
    assert make_plan(tree, ["pytorch-*"]).selected == (TORCH_ID,)
    with pytest.raises(LockError):
        make_plan(tree)


def test_a_recipe_that_does_not_fit_stops_the_plan() -> None:
    with pytest.raises(RecipeError, match=r"docker/pytorch/Dockerfile:17: ARG EXTRA"):
        make_plan(append("docker/pytorch/Dockerfile", "ARG EXTRA\nRUN $EXTRA\n"))


def test_two_different_bases_of_one_name_are_an_error() -> None:
    tree = specimen()
    text = tree[PYTORCH_PATH].data.decode() + "base: {os_packages: [make]}\n"
    with pytest.raises(SpecError, match=BASE_ID):
        make_plan(locked(changed(unlocked(), PYTORCH_PATH, text)))


def test_asking_a_plan_for_what_it_lacks_is_a_selector_error() -> None:
    with pytest.raises(SelectorError):
        make_plan(specimen(), ["pytorch-*"]).target(TENSORFLOW_ID)
