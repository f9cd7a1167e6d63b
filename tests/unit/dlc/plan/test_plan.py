"""The plan holds every target once, parents first, with a key that changes when and only when its content does."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlc.core import labels
from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import LockError, SelectorError, SpecError, UsageError
from dlc.debian import suites
from dlc.plan.changes import Difference, ImageChanges
from dlc.plan.contexts import Host, Image, Pinned, Repo, TargetRef, make_identity
from dlc.plan.plan import Decision, Plan, make_plan
from dlc.plan.targets import CHANNEL, ENTRYPOINT, RUNTIME, SCRIPTS, UV_LOCK, Target
from harness.examples import examples
from harness.specimen import (
    PYTORCH,
    PYTORCH_PATH,
    TENSORFLOW,
    TENSORFLOW_ID,
    TORCH_ID,
    changed,
    locked,
    pinned,
    specimen,
    unlocked,
)

ROOTFS = ("rootfs-bookworm", "tools-rootfs-bookworm")


def keys(tree: Tree) -> dict[str, str]:
    return {target.id: target.key for target in make_plan(tree).targets}


def below(identifier: str) -> list[str]:
    """Ids of an image's own targets, itself last."""
    parts = ("tools", "skeleton", "compiled", "framework", "training")
    return [f"{identifier}/{part}" for part in parts] + [identifier]


def differing(tree: Tree) -> set[str]:
    """Images whose key is another than the specimen's."""
    before, after = keys(specimen()), keys(tree)
    return {name for name in (TORCH_ID, TENSORFLOW_ID) if before[name] != after[name]}


def append(path: str, text: str = "# changed\n") -> Tree:
    tree = specimen()
    return changed(tree, path, tree[path].data.decode() + text)


def test_parents_come_first_and_are_shared() -> None:
    plan = make_plan(specimen())
    assert [target.id for target in plan.targets] == [*ROOTFS, *below(TORCH_ID), *below(TENSORFLOW_ID)]
    assert plan.selected == (TORCH_ID, TENSORFLOW_ID)
    assert plan.refs == ("dlc/pytorch:2.13-training-cpu-py311", "dlc/tensorflow:2.21-training-cpu-py311")
    for index, target in enumerate(plan.targets):
        assert set(target.parents) <= {earlier.id for earlier in plan.targets[:index]}


def test_contexts_arguments_tags_and_labels_follow_from_the_settings() -> None:
    target = make_plan(specimen(), ["pytorch-*"]).target(TORCH_ID)
    assert target.context == Repo(f"docker/pytorch/locks/{TORCH_ID}")
    assert target.contexts == {
        "rootfs": TargetRef(ROOTFS[0]),
        "training": TargetRef(f"{TORCH_ID}/training"),
        "scripts": SCRIPTS,
        "debian": Repo("docker/debian/bookworm"),
        "ca": Host("ca"),
        "entrypoint": ENTRYPOINT,
        "runtime": RUNTIME,
        "channel": CHANNEL,
        "efa-software": Host("nothing"),
        "cuda-compat": Host("nothing"),
    }
    base = {"PYTHON_VERSION": "3.11", "BASE_PACKAGES": "ca-certificates tini"}
    assert target.args == {**base, "OS_PACKAGES": "g++", "EFA_VERSION": "", "EFA_PACKAGES": "", "CUDA_MAJOR": "0"}
    assert target.tags == ("dlc/pytorch:2.13-training-cpu-py311",)
    assert target.platform == target.labels[labels.PLATFORM] == "linux/amd64"
    assert target.labels[labels.FRAMEWORK_VERSION] == "2.13.0+cpu"
    assert target.labels[labels.LICENSES] == "Apache-2.0"
    assert target.labels[labels.KEY] == target.key
    assert re.fullmatch("[0-9a-f]{64}", target.key)


def test_the_licence_label_names_nvidias_where_its_packages_are_and_where_the_framework_holds_them() -> None:
    tree = specimen()
    folder = f"docker/pytorch/locks/{TORCH_ID}"
    with_nvidia = pinned(tree, folder, "framework.txt", "torch==2.13.0+cpu\nnvidia-cublas-cu12==12.8.4.1\n")
    label = make_plan(with_nvidia, ["pytorch-*"]).target(TORCH_ID).labels[labels.LICENSES]
    assert label == "Apache-2.0 AND LicenseRef-NVIDIA-Proprietary"
    text = PYTORCH.replace("2.13.0+cpu", "2.13.0").replace("variants:", "device: cu102\nvariants:")
    plan = make_plan(locked(changed(unlocked(), PYTORCH_PATH, text)), ["pytorch-*"])
    assert plan.target(plan.selected[0]).labels[labels.LICENSES] == label


def test_a_frameworks_own_dockerfile_lies_between_two_stages_of_the_shared_one() -> None:
    plan = make_plan(specimen(), ["pytorch-*"])
    own = plan.target(f"{TORCH_ID}/training")
    assert own.dockerfile == "docker/pytorch/Dockerfile"
    assert own.contexts["framework"] == TargetRef(f"{TORCH_ID}/framework")
    below = {plan.target(name).dockerfile for name in own.parents if name != f"{TORCH_ID}/framework"}
    assert below == {"docker/base/Dockerfile"}
    assert plan.ancestry(TORCH_ID) == {target.id for target in plan.targets}
    assert plan.target(TORCH_ID).args["OS_PACKAGES"] == "g++"
    own_base = make_plan(specimen(), ["pytorch-*"], ["base.os_packages=[tini, python3, python3-distutils]"])
    assert own_base.target(f"{TORCH_ID}/tools").args["TOOLS_PACKAGES"] == "binutils python3 python3-distutils"
    compiled = plan.target(f"{TORCH_ID}/compiled")
    assert (compiled.args["FRAMEWORK"], compiled.args["BUILD_PACKAGES"]) == ("pytorch", "gcc")
    uv, wheels = compiled.contexts["uv"], compiled.contexts["wheels"]
    assert (uv, str(wheels)) == (Host("uv", "VERSION"), "host:wheels")


def test_a_framework_with_cuda_libraries_stands_on_a_layer_of_them_and_others_on_nothing() -> None:
    def lowest(tree: Tree) -> object:
        return make_plan(tree, ["pytorch-*"]).target(f"{TORCH_ID}/framework").contexts["lowest"]

    assert lowest(specimen()) == TargetRef(f"{TORCH_ID}/skeleton")
    with_cuda = pinned(specimen(), f"docker/pytorch/locks/{TORCH_ID}", "cuda.txt", "nvidia-cublas-cu12==12.8.4.1\n")
    assert lowest(with_cuda) == TargetRef(f"{TORCH_ID}/cuda")


def test_a_changed_debian_version_changes_no_key_of_a_framework() -> None:
    tree = specimen()
    path = "docker/debian/bookworm/versions.txt"
    before, after = keys(tree), keys(changed(tree, path, tree[path].data.decode() + "openssl=99\n"))
    same = {name for name, key in after.items() if before[name] == key}
    parts = ("tools", "skeleton", "framework")
    of_framework = {f"{name}/{part}" for name in (TORCH_ID, TENSORFLOW_ID) for part in parts}
    assert same == {"tools-rootfs-bookworm", *of_framework}


def test_a_base_that_the_user_names_replaces_ours() -> None:
    reference = f"registry:5000/debian:12.1@sha256:{64 * 'a'}"
    plan = make_plan(specimen(), ["pytorch-*"], [f"base.image={reference}"])
    assert [target.id for target in plan.targets] == below(TORCH_ID)
    assert plan.target(TORCH_ID).contexts["rootfs"] == Image(reference)
    assert plan.target(f"{TORCH_ID}/tools").contexts["tools-rootfs"] == Image(reference)
    assert plan.target(TORCH_ID).labels[labels.OS] == reference
    assert plan.target(TORCH_ID).key != keys(specimen())[TORCH_ID]


def test_a_tag_that_means_another_image_gives_another_key() -> None:
    def key(**found: Image) -> str:
        return make_plan(specimen(), ["pytorch-*"], ["base.image=debian:12"], found).target(TORCH_ID).key

    known = [{"debian:12": Image("debian:12", f"sha256:{digit}")} for digit in "ab"]
    assert len({key(), *(key(**found) for found in known)}) == 3


def test_keys_have_the_uv_of_the_recipes_and_not_that_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(specimen())
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0")
    assert keys(specimen()) == before
    other = keys(changed(specimen(), UV_LOCK, "uv==0.0.1 \\\n    --hash=sha256:00\n"))
    assert before[TORCH_ID] != other[TORCH_ID]


def test_recipes_without_a_uv_say_so() -> None:
    with pytest.raises(SpecError, match=r"uv\.txt: expected uv==VERSION with its hashes, found none"):
        make_plan(changed(specimen(), UV_LOCK, "pip==1\n"), ["pytorch-*"])


def test_the_text_of_a_context_says_what_it_is() -> None:
    assert str(Pinned("ab", "https://vendor.invalid/x")) == "pinned:ab@https://vendor.invalid/x"
    assert make_identity(Pinned("ab", "https://vendor.invalid/x")) == make_identity(Pinned("ab", "file:///x"))
    contexts = (Repo("docker/x"), Host("uv", "1.0"), TargetRef("a/b"), Image("debian:12"))
    assert [str(context) for context in contexts] == ["repo:docker/x", "host:uv==1.0", "target:a/b", "image:debian:12"]
    shown = json.loads(json.dumps(make_plan(specimen(), ["pytorch-*"]).as_dict()))["targets"][-1]
    assert shown["contexts"]["rootfs"] == "target:rootfs-bookworm"
    assert shown["parents"] == [ROOTFS[0], f"{TORCH_ID}/training"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/entrypoint/launcher.py", {TORCH_ID, TENSORFLOW_ID}),
        ("src/dlc_runtime/__init__.py", {TORCH_ID, TENSORFLOW_ID}),
        ("src/dlc_channel/__init__.py", {TORCH_ID, TENSORFLOW_ID}),
        ("docker/pytorch/Dockerfile", {TORCH_ID}),
        ("docker/scripts/install.sh", {TORCH_ID, TENSORFLOW_ID}),
        ("docker/base/Dockerfile", {TORCH_ID, TENSORFLOW_ID}),
        (PYTORCH_PATH, set()),
        ("buildspec/compat.yml", set()),
    ],
)
def test_a_changed_file_changes_the_keys_of_what_is_built_from_it(path: str, expected: set[str]) -> None:
    assert differing(append(path)) == expected


def test_a_new_a_renamed_and_an_executable_file_change_keys() -> None:
    tree = specimen()
    script = tree["docker/scripts/install.sh"]
    everything = {TORCH_ID, TENSORFLOW_ID}
    assert differing({**tree, "docker/scripts/new.sh": SourceFile(b"")}) == everything
    assert differing({**tree, "docker/scripts/install.sh": SourceFile(script.data, True)}) == everything
    renamed = {path: file for path, file in tree.items() if file is not script}
    assert differing({**renamed, "docker/scripts/other.sh": script}) == everything


def test_the_way_our_own_base_is_made_is_part_of_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(specimen())
    monkeypatch.setattr(suites, "DPKG_OPTIONS", ())
    after = keys(specimen())
    assert all(before[name] != after[name] for name in before)


def test_arguments_and_labels_change_keys_and_the_repository_name_does_not() -> None:
    before = keys(specimen())
    for text, same in [("os_packages=[make]", False), ("labels.a=b", False), ("repository=other", True)]:
        after = make_plan(specimen(), ["pytorch-*"], [text]).target(TORCH_ID).key
        assert (after == before[TORCH_ID]) is same


@examples(10)
@given(st.permutations(sorted(specimen())))
def test_the_order_of_files_changes_nothing(order: list[str]) -> None:
    tree = specimen()
    assert keys({path: tree[path] for path in order}) == keys(tree)


def test_two_plans_of_one_tree_are_equal() -> None:
    assert make_plan(specimen()) == make_plan(specimen())
    assert json.dumps(make_plan(specimen()).as_dict()) == json.dumps(make_plan(specimen()).as_dict())


def test_nothing_in_a_plan_can_be_changed() -> None:
    plan = make_plan(specimen(), sets=["base.image=debian:12"])
    contexts = [context for target in plan.targets for context in (target.context, *target.contexts.values())]
    changes = [Difference("python", "3.11", "3.12"), ImageChanges(TORCH_ID, "same")]
    values = [plan, *plan.targets, *plan.decisions({}), *contexts, Pinned("ab", "file:///x"), *changes]
    kinds = {Plan, Target, Decision, Repo, Host, TargetRef, Image, Pinned, Difference, ImageChanges}
    assert {type(value) for value in values} == kinds
    for value in values:
        with pytest.raises(FrozenInstanceError):
            setattr(value, fields(value)[0].name, "other")


def existing(plan: Plan, **changes: str) -> dict[str, str]:
    refs = {target.tags[0]: target.key for target in plan.targets if target.tags}
    return {**refs, **{ref: key for ref, key in changes.items() if ref in refs}}


def test_without_any_image_everything_is_built() -> None:
    decisions = make_plan(specimen()).decisions({})
    assert all(decision.build for decision in decisions)
    [torch] = [decision for decision in decisions if decision.id == TORCH_ID]
    assert torch.why == "no image dlc/pytorch:2.13-training-cpu-py311"


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
    assert [name for name, decision in decisions.items() if decision.build] == [*ROOTFS, *below(TORCH_ID)]
    wanted = plan.target(TORCH_ID).key[:12]
    assert decisions[TORCH_ID].why.endswith(f"py311 was built from 000000000000, wanted {wanted}")
    assert decisions[f"{TORCH_ID}/training"].why == "an image above needs it"
    assert decisions[f"{TENSORFLOW_ID}/training"].why == "only skipped images need it"
    left = plan.without([TENSORFLOW_ID])
    assert [target.id for target in left.targets] == [*ROOTFS, *below(TORCH_ID)]
    assert left.selected == (TORCH_ID,)


def test_only_the_locks_of_selected_images_must_be_fresh() -> None:
    tree = {path: file for path, file in specimen().items() if "tensorflow/locks" not in path}
    assert make_plan(tree, ["pytorch-*"]).selected == (TORCH_ID,)
    with pytest.raises(LockError):
        make_plan(tree)


def test_asking_a_plan_for_what_it_lacks_is_a_selector_error() -> None:
    with pytest.raises(SelectorError):
        make_plan(specimen(), ["pytorch-*"]).target(TENSORFLOW_ID)


def settings_of(*texts: str) -> Target:
    return make_plan(specimen(), [TENSORFLOW_ID], texts).target(f"{TENSORFLOW_ID}/settings")


LEGACY = "env.TF_USE_LEGACY_KERAS=1"


def test_environment_variables_of_the_buildspec_are_the_image_s_and_in_its_key() -> None:
    target = settings_of(LEGACY)
    assert target.dockerfile == 'FROM training\nENV TF_USE_LEGACY_KERAS="1"\n'
    plan = make_plan(specimen(), [TENSORFLOW_ID], [LEGACY])
    assert plan.target(TENSORFLOW_ID).contexts["training"] == TargetRef(target.id)
    assert target.contexts == {"training": TargetRef(f"{TENSORFLOW_ID}/training")}
    assert plan.target(TENSORFLOW_ID).key != make_plan(specimen()).target(TENSORFLOW_ID).key


def test_a_value_is_taken_literally() -> None:
    """A Dockerfile would expand `$HOME`, and end the value at a quotation mark."""
    assert settings_of(r"""env.A='say "$HOME" \'""").dockerfile == 'FROM training\nENV A="say \\"\\$HOME\\" \\\\"\n'


@pytest.mark.parametrize("text", ["env.A B=1", "env.1A=1", 'env.A="b\\nRUN evil"', "env.A=[b]"])
def test_what_is_no_variable_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected (the name of an environment variable|text)"):
        settings_of(text)


def test_a_package_that_another_contains_is_said_to_the_installers() -> None:
    path = "buildspec/tensorflow/2.21-training.yml"
    text = TENSORFLOW.replace("{framework:", "{provides: {tensorflow: tensorflow-cpu}, framework:")
    plan = make_plan(locked(changed(unlocked(), path, text)))
    target = plan.target(f"{TENSORFLOW_ID}/settings")
    assert target.dockerfile.count(" /stand-ins/install.sh tensorflow tensorflow-cpu==2.21.0 ") == 1
    assert target.contexts["scripts"] == SCRIPTS


def test_the_users_variables_are_not_those_of_the_step_that_installs_stand_ins() -> None:
    """A PATH or a PYTHONPATH of the buildspec could break the step."""
    path = "buildspec/tensorflow/2.21-training.yml"
    text = TENSORFLOW.replace("{framework:", "{provides: {tensorflow: tensorflow-cpu}, framework:")
    plan = make_plan(locked(changed(unlocked(), path, text)), [TENSORFLOW_ID], ["env.PYTHONPATH=/mine"])
    words = [line.split()[0] for line in plan.target(f"{TENSORFLOW_ID}/settings").dockerfile.splitlines()]
    assert words == ["FROM", "RUN", "ENV"]
