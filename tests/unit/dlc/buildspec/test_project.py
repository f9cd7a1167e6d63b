"""A project's dlc.yml is one more layer on a released image: its settings, its lock's place, every mistake in it."""

from __future__ import annotations

import json

import pytest

import dlc
from dlc.buildspec.lockfile import explain_staleness
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.project import list_own_images
from dlc.buildspec.variant import Variant
from dlc.checked_yaml.yaml_layers import list_origins
from dlc.core.checkout import SourceFile, Tree
from dlc.core.errors import LockError, SpecError
from dlc.plan.plan import make_plan
from harness.specimen import PYTORCH, PYTORCH_PATH, TORCH_ID, changed, locked, unlocked

OWN_ID = f"{TORCH_ID}-demo"
START = f"name: demo\nfrom: {TORCH_ID}\n"


def project(text: str = START, tree: Tree | None = None) -> Tree:
    return {**(tree or unlocked()), "dlc.yml": SourceFile(text.encode())}


def own(text: str = START, *sets: str) -> Variant:
    [variant] = load_variants(project(text), [OWN_ID], sets)
    return variant


def report(text: str, tree: Tree | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        load_variants(project(text, tree))
    return str(caught.value)


def test_the_image_comes_after_the_released_ones_and_changes_none() -> None:
    released = load_variants(unlocked())
    *others, last = load_variants(project())
    assert [(each.id, each.ref, each.lock_input()) for each in others] == [
        (each.id, each.ref, each.lock_input()) for each in released
    ]
    assert (last.id, last.ref) == (OWN_ID, "demo/pytorch:2.13-training-cpu-py311-demo")
    assert last.base is not None
    assert last.base.id == TORCH_ID


def test_without_packages_it_asks_for_what_the_released_image_asks_for() -> None:
    assert own().base is not None
    assert own().lock_input() == own().base.lock_input()  # type: ignore[union-attr]
    assert own().lock_folder == f"locks/{OWN_ID}"


def test_packages_are_on_top_or_in_other_versions() -> None:
    text = f"{START}packages: [einops, numpy==2.0.0]\nos_packages: [ffmpeg, g++]\n"
    assert own(text).training_requirements == ("transformers==5.23.0", "numpy==2.0.0", "einops")
    assert own(text).settings.os_packages == ("g++", "ffmpeg")
    assert own(text).framework_requirements == ("torch==2.13.0+cpu",)


def test_a_range_extras_and_an_address_are_for_the_resolver() -> None:
    asked = ("einops>=0.7,<1", "lightning[extra]~=2.6", "tiny @ git+https://host/team/tiny@v1#subdirectory=python")
    text = f"{START}packages: {json.dumps(asked)}\n"
    assert own(text).training_requirements[-3:] == asked
    assert own(text).lock_input() != own().lock_input()


def test_a_range_takes_the_place_of_the_released_version() -> None:
    assert own(f"{START}packages: [transformers>=4]\n").training_requirements[0] == "transformers>=4"


def test_every_setting_of_the_project_is_shown_with_its_place() -> None:
    text = f"{START}packages: [einops]\nenv: {{A: b}}\nlabels: {{team: ml}}\nrepository: team/own\n"
    origins = {path: origin for path, _, origin in list_origins(own(text).node)}
    assert origins["packages.training"] == "dlc.yml:3:11"
    assert origins["env.A"] == "dlc.yml:4:10"
    assert origins["labels.team"] == "dlc.yml:5:16"
    assert origins["repository"] == "dlc.yml:6:13"
    assert origins["flavor"] == "dlc.yml:1:7"
    assert own(text).ref.startswith("team/own/pytorch:")


def test_a_package_that_the_released_image_leaves_out_is_had_for_the_asking() -> None:
    lists = PYTORCH + "    lists: {more: [einops]}\n"
    left_out = lists.replace("{framework:", "{lists: [more], missing: {einops: no wheel}, framework:")
    tree = changed(unlocked(), PYTORCH_PATH, left_out)
    assert "einops" not in load_variants(tree, [TORCH_ID])[0].training_requirements
    [variant] = load_variants(project(f"{START}packages: [einops]\n", tree), [OWN_ID])
    assert "einops" in variant.training_requirements
    assert variant.missing == {}


def test_parts_below_the_packages_have_the_released_ones_content() -> None:
    """Below the training packages only the lock's folder differs, whose framework.txt is the same file."""
    tree = locked(project(f"{START}packages: [einops==0.8.1]\n"))
    plan = make_plan(tree)
    for part in ("tools", "framework"):
        ours, theirs = plan.target(f"{OWN_ID}/{part}"), plan.target(f"{TORCH_ID}/{part}")
        assert ours.args == theirs.args
        assert ours.dockerfile == theirs.dockerfile
    frameworks = [tree[f"{folder}/framework.txt"].data.split(b"\n", 3)[3] for folder in
                  (f"locks/{OWN_ID}", f"docker/pytorch/locks/{TORCH_ID}")]  # fmt: skip
    assert frameworks[0] == frameworks[1]
    assert plan.target(OWN_ID).key != plan.target(TORCH_ID).key


def test_released_images_have_the_same_key_in_a_project_as_outside() -> None:
    outside = make_plan(locked(unlocked()), [TORCH_ID]).target(TORCH_ID).key
    assert make_plan(locked(project()), [TORCH_ID]).target(TORCH_ID).key == outside


def test_a_lock_that_lacks_a_package_is_stale_and_names_it() -> None:
    tree = changed(locked(project()), "dlc.yml", f"{START}packages: [einops]\n")
    [variant] = load_variants(tree, [OWN_ID])
    assert "einops, found none" in explain_staleness(tree, variant)
    with pytest.raises(LockError) as caught:
        make_plan(tree, [OWN_ID])
    assert caught.value.remedy == f"dlc lock {OWN_ID}"


def test_set_changes_it_like_any_other_image() -> None:
    plain, changed_image = own(), own(START, "packages.training=[einops==0.8.1]")
    assert changed_image.lock_folder.startswith(f"{plain.lock_folder}-set-")
    assert changed_image.plain is not None
    assert changed_image.base is not None


def test_the_folders_own_images_are_none_without_a_project() -> None:
    assert list_own_images(unlocked()) == ()
    assert list_own_images(project()) == (OWN_ID,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{START}pakages: [einops]\n", "dlc.yml:3:1: pakages: expected one of"),
        (f"{START}pakages: [einops]\n", "did you mean 'packages'?"),
        (f"{START}packages: [einops>=1.x]\n", "packages[0]: expected a requirement that Python packages may have"),
        (f"{START}packages: ['einops; python_version>\"3\"']\n", "dlc.yml:3:12: packages[0]: expected NAME, a version"),
        (f"{START}packages: ['a @ https://me:pw@h/a.whl']\n", "packages[0]: expected an address without a password"),
        (f"{START}packages: ['a @ http://h/a.whl']\n", "packages[0]: expected https, or http with the file's hash"),
        (f"{START}packages: ['a @ https://h/a.exe']\n", "packages[0]: expected the address of a wheel (.whl)"),
        (f"{START}packages: ['a @ hg+https://h/a']\n", "packages[0]: expected an address of https, file, git+https"),
        (f"{START}packages: ['torch>=2']\n", "dlc.yml:3:12: packages[0]: expected no package that"),
        (f"{START}packages: einops\n", "dlc.yml:3:11: packages: expected a list, found 'einops'"),
        (f"{START}os_packages: [Not_Debian]\n", "dlc.yml:3:15: os_packages[0]: expected a Debian package name"),
        (f"name: demo\nfrom: {TORCH_ID}x\n", "dlc.yml:2:7: from: expected an image of `dlc list '*'`, found 'pytorch-"),
        (f"name: demo\nfrom: {TORCH_ID}x\n", f"did you mean '{TORCH_ID}'?"),
        ("name: demo\n", "dlc.yml:1:1: from: expected a value for from, found none"),
        (f"from: {TORCH_ID}\n", "name: expected a value for name, found none"),
        (f"name: De_mo\nfrom: {TORCH_ID}\n", "dlc.yml:1:7: name: expected a name in lower case, digits and dashes"),
        (f"name: {'a' * 41}\nfrom: {TORCH_ID}\n", "dlc.yml:1:7: name: expected a name of at most 40 characters"),
        (f"name: set-1\nfrom: {TORCH_ID}\n", "dlc.yml:1:7: name: expected a name without `set-`"),
        (f"{START}packages: [torch==2.12.0]\n", "dlc.yml:3:12: packages[0]: expected no package that"),
        (f"{START}labels: {{org.dlc.id: x}}\n", "dlc.yml:3:22: labels.org.dlc.id: expected a label outside org.dlc.*"),
        (f"{START}name: again\n", "dlc.yml:3:1: name: expected each key once"),
        (f"{START}requires: dlc 0.1\n", "dlc.yml:3:11: requires: expected dlc >= VERSION"),
        ("- name\n", "dlc.yml:1:1: expected a mapping, found a list of 1"),
        ("name: [demo\n", "dlc.yml:2:1: expected YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_place(text: str, said: str) -> None:
    assert said in report(text)


def test_the_name_of_a_released_image_is_not_free() -> None:
    tree = changed(unlocked(), PYTORCH_PATH, PYTORCH + "  - flavor: xla\n    packages: {framework: [torch==2.13.0]}\n")
    said = report(f"from: {TORCH_ID}\nname: xla\n", tree)
    assert said.startswith("dlc.yml:2:7: name: expected a name that no released image has, found 'xla'")
    assert f"{TORCH_ID}-xla" in said


def test_a_project_for_a_newer_dlc_says_so_before_anything_else_in_it() -> None:
    said = report("requires: dlc >= 99.1\nbranch: [of, the, future]\n")
    assert said.startswith(f"dlc.yml:1:11: requires: expected dlc 99.1 or newer, found dlc {dlc.__version__}")
    assert "pip install dlc-VERSION-py3-none-any.whl, of release 99.1 or newer" in said
    assert own(f"requires: dlc >= {dlc.__version__}\n{START}").id == OWN_ID


def test_a_file_that_is_no_text_is_said() -> None:
    with pytest.raises(SpecError, match=r"dlc\.yml: expected UTF-8 text"):
        load_variants({**unlocked(), "dlc.yml": SourceFile(b"\xff")})
