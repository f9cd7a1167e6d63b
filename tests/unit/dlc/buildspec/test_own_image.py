"""A project that only adds is a released image with thin layers on top; every other one has layers of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlc.buildspec.lockfile import explain_staleness, list_changes, locked_versions, require_sound
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.project import list_own_images
from dlc.core.checkout import SourceFile, Tree, find_root, read_text, read_tree
from dlc.core.errors import LockError, SpecError
from dlc.plan.contexts import Host, Image
from dlc.plan.plan import Plan, make_plan
from harness.specimen import PYTORCH, PYTORCH_PATH, TORCH_ID, changed, locked, specimen, thin, unlocked

OWN_ID = f"{TORCH_ID}-demo"
START = f"name: demo\nfrom: {TORCH_ID}\n"
EINOPS = "einops==0.8.1 \\\n    --hash=sha256:0e\n"


def project(text: str = "packages: [einops]\n", released: Tree | None = None) -> Tree:
    return {**(released or specimen()), "dlc.yml": SourceFile(f"{START}{text}".encode())}


def own_targets(plan: Plan) -> list[str]:
    return [target.id.removeprefix(f"{OWN_ID}/") for target in plan.targets if target.id.startswith(OWN_ID)]


def test_the_targets_below_are_the_released_ones_key_for_key() -> None:
    released = {target.id: target.key for target in make_plan(specimen(), [TORCH_ID]).targets}
    plan = make_plan(thin(project(), EINOPS), [OWN_ID])
    assert {target.id: target.key for target in plan.targets if target.id in released} == released
    assert own_targets(plan) == ["python-packages", "added-packages", OWN_ID]
    assert plan.refs == (f"demo/pytorch:{OWN_ID.removeprefix('pytorch-')}",)
    assert set(plan.all_refs) == {*plan.refs, *make_plan(specimen(), [TORCH_ID]).refs}


@pytest.mark.parametrize("identifier", ["pytorch-2.13-training-cpu-py311", "tensorflow-2.21-training-cu128-py311"])
def test_so_it_is_for_the_images_of_this_repository(identifier: str) -> None:
    tree = read_tree(find_root(Path(__file__).parent))
    released = {target.id: target.key for target in make_plan(tree, [identifier]).targets}
    own = thin(
        {**tree, "dlc.yml": SourceFile(f"name: demo\nfrom: {identifier}\npackages: [einops]\n".encode())}, EINOPS
    )
    found = {target.id: target.key for target in make_plan(own, [f"{identifier}-demo"]).targets}
    assert released.items() <= found.items()


@pytest.mark.parametrize(
    ("text", "added", "layers"),
    [
        ("", "", [OWN_ID]),
        ("env: {A: b}\nlabels: {team: ml}\n", "", [OWN_ID]),
        ("os_packages: [ffmpeg, g++, tini]\n", "", ["apt", "added-system", OWN_ID]),
        ("packages: [einops]\nos_packages: [less]\n", EINOPS,
         ["apt", "added-system", "python-packages", "added-packages", OWN_ID]),
    ],
)  # fmt: skip
def test_there_is_a_layer_for_each_kind_of_what_is_added_and_no_other(text: str, added: str, layers: list[str]) -> None:
    plan = make_plan(thin(project(text), added), [OWN_ID])
    assert own_targets(plan) == layers
    if "added-system" in layers:
        names = plan.target(f"{OWN_ID}/added-system").args["ADDED_PACKAGES"]
        assert names == ("ffmpeg" if "ffmpeg" in text else "less"), "what is below is not installed again"


def test_variables_and_labels_are_on_top_and_what_is_below_keeps_its_own() -> None:
    released = locked(changed(unlocked(), PYTORCH_PATH, f"{PYTORCH}    env: {{A: one, B: two}}\n"))
    plan = make_plan(thin(project("env: {B: three, C: four}\nlabels: {team: ml}\n", released)), [OWN_ID])
    image = plan.target(OWN_ID)
    assert [line for line in image.dockerfile.splitlines() if line.startswith("ENV") and "KEY" not in line] == [
        'ENV B="three"', 'ENV C="four"'
    ]  # fmt: skip
    assert image.labels["team"] == "ml"
    assert image.labels["org.dlc.id"] == OWN_ID


def test_an_engine_that_has_the_released_image_builds_nothing_below_it() -> None:
    plan = make_plan(thin(project(), EINOPS), [OWN_ID])
    [ref] = make_plan(specimen(), [TORCH_ID]).refs
    key = plan.target(TORCH_ID).key
    begun = plan.begin_from({ref: key})
    assert [target.id for target in begun.targets] == [
        f"{OWN_ID}/python-packages", f"{OWN_ID}/added-packages", OWN_ID
    ]  # fmt: skip
    assert begun.target(f"{OWN_ID}/added-packages").contexts["with-system"] == Image(ref, local=True)
    assert begun.target(OWN_ID).key == plan.target(OWN_ID).key
    assert plan.begin_from({ref: "of other sources"}) == plan
    assert plan.begin_from({}) == plan


def test_a_step_has_the_wheels_of_its_own_lock_file_alone() -> None:
    plan = make_plan(thin(project(), EINOPS), [OWN_ID])
    found = {target.id: context.locks for target in plan.targets
             if isinstance(context := target.contexts.get("wheels"), Host)}  # fmt: skip
    assert found[f"{OWN_ID}/added-packages"] == (f"locks/{OWN_ID}/added.txt",)
    assert found[f"{TORCH_ID}/framework"] == (f"docker/pytorch/locks/{TORCH_ID}/framework.txt",)


def test_what_reads_a_lock_reads_what_is_added() -> None:
    tree = thin(project(), EINOPS)
    [variant] = load_variants(tree, [OWN_ID])
    assert locked_versions(tree, variant)["einops"] == "0.8.1"
    assert locked_versions(tree, variant)["torch"] == "2.13.0+cpu"
    assert explain_staleness(tree, variant) == ""


def test_a_changed_released_lock_makes_it_stale() -> None:
    tree = thin(project(), EINOPS)
    path = f"docker/pytorch/locks/{TORCH_ID}/training.txt"
    newer = changed(tree, path, read_text(tree, path).replace("sha256:00", "sha256:11"))
    [variant] = load_variants(newer, [OWN_ID])
    assert explain_staleness(newer, variant) == (
        f"locks/{OWN_ID}/training.txt: stale: expected the entries of {path}, found others"
    )


def test_an_entry_of_what_is_added_that_was_changed_by_hand_is_refused() -> None:
    tree = thin(project(), EINOPS)
    path = f"locks/{OWN_ID}/added.txt"
    broken = changed(tree, path, read_text(tree, path).replace("sha256:0e", "sha256:0f"))
    with pytest.raises(LockError, match="an entry was changed by hand"):
        make_plan(broken, [OWN_ID])


def test_what_is_added_keeps_to_the_rules_of_every_lock() -> None:
    tree = thin(project("packages: [nvidia-cublas-cu12]\n"), "tensorflow==2.21.0 \\\n    --hash=sha256:0e\n")
    with pytest.raises(LockError, match=r"expected one framework, found torch==2\.13\.0.* and tensorflow==2\.21\.0"):
        require_sound(tree, load_variants(tree, [OWN_ID]))


def test_a_setting_that_changes_what_is_below_changes_the_layers_below() -> None:
    tree = thin(project(), EINOPS)
    released = {target.id: target.key for target in make_plan(specimen(), [TORCH_ID]).targets}
    plan = make_plan(tree, [OWN_ID], ["build_packages=[gcc, make]"])
    assert plan.target(f"{TORCH_ID}/compiled").key != released[f"{TORCH_ID}/compiled"]
    assert plan.target(f"{TORCH_ID}/tools").key == released[f"{TORCH_ID}/tools"]


def test_without_a_list_of_what_is_added_the_image_has_layers_of_its_own() -> None:
    tree = locked(project("packages: [einops==0.8.1]\n", unlocked()))
    assert "training" in own_targets(make_plan(tree, [OWN_ID]))
    assert list_own_images(tree) == (OWN_ID,)


def test_a_lock_says_which_released_versions_could_not_stay() -> None:
    tree = locked(project("packages: [numpy==2.0.0]\n", unlocked()))
    [variant] = load_variants(tree, [OWN_ID])
    assert list_changes(tree, variant) == []
    path = f"{variant.lock_folder}/training.txt"
    noted = changed(
        tree, path, f"# changed: numpy 2.4.6 -> 2.0.0: dlc.yml asks for numpy==2.0.0\n{read_text(tree, path)}"
    )
    assert list_changes(noted, variant) == ["numpy 2.4.6 -> 2.0.0: dlc.yml asks for numpy==2.0.0"]


def test_a_user_is_one_more_layer_and_runs_in_the_image() -> None:
    plan = make_plan(thin(project("packages: [einops]\nuser: dev\n"), EINOPS), [OWN_ID])
    assert own_targets(plan)[-2:] == ["added-user", OWN_ID]
    assert plan.target(f"{OWN_ID}/added-user").args == {"USER_NAME": "dev", "USER_ID": "1000"}
    assert plan.target(OWN_ID).dockerfile.endswith("\nUSER dev\n")


def test_an_image_with_layers_of_its_own_gets_its_user_on_top_of_them() -> None:
    plan = make_plan(locked(project("packages: [numpy==2.0.0]\nuser: {name: dev, uid: 2000}\n", unlocked())), [OWN_ID])
    assert own_targets(plan)[-3:] == ["of-root", "added-user", OWN_ID]
    assert plan.target(f"{OWN_ID}/of-root").tags == ()
    assert plan.target(f"{OWN_ID}/added-user").args["USER_ID"] == "2000"
    assert plan.refs == (f"demo/pytorch:{OWN_ID.removeprefix('pytorch-')}",)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("root", "user.name: expected a name that is no user or group of Debian, and not root, found 'root'"),
        ("{name: www-data}", "user.name: expected a name that is no user or group of Debian"),
        ("{name: dev, uid: 0}", "user.uid: expected a number from 1000 to 59999"),
        ("{name: dev, uid: 65534}", "user.uid: expected a number from 1000 to 59999"),
        ("Dev", "user.name: expected a user's name"),
        ("-dev", "user.name: expected a user's name"),
        ("{name: dev, id: 1000}", "user.id: expected one of name, uid, found unknown key 'id'"),
        ("{uid: 1000}", "user.name: expected a value for name, found none"),
    ],
)
def test_root_system_users_and_what_is_no_name_are_refused_with_their_place(written: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_variants(project(f"user: {written}\n"))
    assert re.search(rf"dlc\.yml:3:\d+: {re.escape(words)}", str(caught.value))
