"""What other recipes change: settings, packages, the lock, the parts that are built again."""

from __future__ import annotations

from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.plan_changes import as_text
from dlc.core.checkout import SourceFile, Tree
from dlc.plan.changes import ADDED, CHANGED, REMOVED, SAME, Difference, ImageChanges, compare_images, find_rebuilt
from harness.specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, changed, locked, unlocked

OWN_ID = f"{TORCH_ID}-demo"
PROJECT = {"dlc.yml": SourceFile(f"name: demo\nfrom: {TORCH_ID}\npackages: [einops==0.8.1]\n".encode())}
NEWER = PYTORCH.replace("2.13.0", "2.13.1")


def compare(old: Tree, new: Tree) -> dict[str, ImageChanges]:
    return {each.id: each for each in compare_images(load_variants(old), load_variants(new), old, new)}


def test_the_same_recipes_change_nothing() -> None:
    tree = locked(unlocked())
    assert {each.what for each in compare(tree, tree).values()} == {SAME}


def test_a_script_of_the_build_changes_what_is_built_with_it() -> None:
    tree = locked(unlocked())
    found = compare(tree, changed(tree, "src/entrypoint/launcher.py", "print('newer')\n"))[TORCH_ID]
    assert (found.what, found.parts) == (CHANGED, ("image",))
    assert (found.settings, found.packages, found.lock) == ((), (), "")


def test_a_setting_that_is_part_of_no_key_is_a_change_and_builds_nothing_again() -> None:
    tree = locked(unlocked())
    other = changed(tree, PYTORCH_PATH, PYTORCH.replace("job: training", "job: training\nrepository: other"))
    found = compare(tree, other)[TORCH_ID]
    assert (found.what, found.settings) == (CHANGED, (Difference("repository", "dlc", "other"),))
    assert (found.packages, found.lock, found.parts) == ((), "", ())


def test_a_newer_framework_is_a_setting_and_a_package_and_reaches_the_image() -> None:
    found = compare(locked(unlocked()), locked(changed(unlocked(), PYTORCH_PATH, NEWER)))
    torch = found[TORCH_ID]
    assert torch.settings == (Difference("packages.framework", "[torch==2.13.0+cpu]", "[torch==2.13.1+cpu]"),)
    assert torch.packages == (Difference("torch", "2.13.0+cpu", "2.13.1+cpu"),)
    assert {"framework", "training", "image"} <= {*torch.parts}
    assert found[TENSORFLOW_ID].what == SAME


def test_a_projects_lock_is_stale_then_and_what_it_will_take_is_shown() -> None:
    """Its own lock is the same file before and after."""
    before = locked({**unlocked(), **PROJECT})
    own = {path: file for path, file in before.items() if path.startswith(("locks/", "dlc.yml"))}
    after = {**locked(changed(unlocked(), PYTORCH_PATH, NEWER)), **own}
    found = compare(before, after)[OWN_ID]
    assert found.packages == (Difference("torch", "2.13.0+cpu", "2.13.1+cpu"),)
    assert "stale" in found.lock
    assert found.parts == ()
    assert f"after the upgrade: dlc lock {OWN_ID}" in as_text([found], "dlc-9.whl")


def test_images_come_and_go() -> None:
    more = PYTORCH + "  - flavor: xla\n    packages: {framework: [torch==2.13.0]}\n"
    few, many = locked(unlocked()), locked(changed(unlocked(), PYTORCH_PATH, more))
    assert compare(few, many)[f"{TORCH_ID}-xla"].what == ADDED
    assert compare(many, few)[f"{TORCH_ID}-xla"].what == REMOVED
    assert f"{TORCH_ID}-xla: removed" in as_text([*compare(many, few).values()], "older")


def rebuilt(old: Tree, new: Tree) -> dict[str, tuple[tuple[str, ...], str]]:
    found = find_rebuilt(load_variants(old), load_variants(new), old, new)
    return {each.id: (each.parts, each.why) for each in found}


def test_only_an_image_with_another_content_key_is_built_anew() -> None:
    tree = locked(unlocked())
    assert rebuilt(tree, tree) == {}
    budget = changed(unlocked(), PYTORCH_PATH, f"{PYTORCH}    budget: {{gigabytes: '9', why: it grew}}\n")
    assert rebuilt(tree, locked(budget)) == {}
    launcher = rebuilt(tree, changed(tree, "src/entrypoint/launcher.py", "print('newer')\n"))
    assert launcher == {TORCH_ID: (("image",), ""), TENSORFLOW_ID: (("image",), "")}
    assert set(rebuilt(tree, locked(changed(unlocked(), PYTORCH_PATH, NEWER)))) == {TORCH_ID}


def test_an_image_with_nothing_to_compare_with_is_built_anew_and_says_why() -> None:
    tree, stale = locked(unlocked()), changed(locked(unlocked()), PYTORCH_PATH, NEWER)
    parts, why = rebuilt(stale, locked(changed(unlocked(), PYTORCH_PATH, NEWER)))[TORCH_ID]
    assert (parts, why.startswith("its lock could not be used then: ")) == ((), True)
    news = find_rebuilt((), load_variants(tree), {}, tree)
    assert {each.why for each in news} == {"the image is new"}
    assert {each.id for each in find_rebuilt(None, load_variants(tree), {}, tree)} == {TORCH_ID, TENSORFLOW_ID}
