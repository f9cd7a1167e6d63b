"""one_dockerfile: an image's targets become one, with the same steps, and everything that these name is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.checkout import Tree, find_root, read_text, read_tree
from dlc.image_build.export.dockerfile import ROOTFS, SETTINGS
from dlc.image_build.export.stages import Stage, parse_stages
from dlc.image_build.one_dockerfile import join_targets
from dlc.plan.contexts import Host, TargetRef
from dlc.plan.plan import Plan, make_plan

TREE = read_tree(find_root(Path(__file__).parent))
ALL = make_plan(TREE)


def plan_of(identifier: str) -> Plan:
    return ALL.without([name for name in ALL.selected if name != identifier])


def joined_stages(plan: Plan, tree: Tree, identifier: str) -> list[Stage]:
    return parse_stages(read_text(tree, plan.target(identifier).dockerfile))


def steps_of(plan: Plan) -> dict[str, set[str]]:
    """Bodies of the stages in the plan's own Dockerfiles, by name."""
    found: dict[str, set[str]] = {}
    for target in plan.targets:
        if ROOTFS in target.id:
            continue
        text = target.dockerfile if target.inline else read_text(TREE, target.dockerfile)
        for stage in parse_stages(text, SETTINGS):
            found.setdefault(stage.name, set()).add(stage.body)
    return found


@pytest.mark.parametrize("identifier", ALL.selected)
def test_an_image_is_one_target_above_its_root_file_systems_and_keeps_key_labels_and_tags(identifier: str) -> None:
    before = plan_of(identifier)
    plan, _ = join_targets(before, TREE)
    image, old = plan.target(identifier), before.target(identifier)
    assert [target.id for target in plan.targets if ROOTFS not in target.id] == [identifier]
    assert (image.key, image.labels, image.tags, image.context) == (old.key, old.labels, old.tags, old.context)
    links = [value.id for value in image.contexts.values() if isinstance(value, TargetRef)]
    assert all(ROOTFS in link for link in links)
    assert {*links} <= {target.id for target in plan.targets}


@pytest.mark.parametrize("identifier", ALL.selected)
def test_each_stage_begins_from_and_takes_from_what_is_there_and_runs_the_same_steps(identifier: str) -> None:
    before = plan_of(identifier)
    plan, tree = join_targets(before, TREE)
    image, own = plan.target(identifier), steps_of(before)
    there = {"scratch", *image.contexts}
    parts = [target for target in before.targets if ROOTFS not in target.id]
    assert {*image.args.items()} == {item for part in parts for item in part.args.items()}
    assert {(name.partition("-")[0] if name.startswith("wheels-") else name, value)
            for name, value in image.contexts.items()} == {
        (name, value)
        for part in parts
        for name, value in part.contexts.items()
        if not isinstance(value, TargetRef) or ROOTFS in value.id
    }  # fmt: skip
    for stage in joined_stages(plan, tree, identifier):
        assert {stage.base, *stage.sources} <= there, stage.name
        assert any(_drop_names(body) == _drop_names(stage.body) for body in own[stage.name]), stage.name
        there.add(stage.name)


def _drop_names(body: str) -> list[str]:
    """The words of a stage but for those that name another stage."""
    return [word for word in body.replace(",", " ").split() if not word.removeprefix("--").startswith("from=")]


def test_images_that_are_built_together_are_a_target_each() -> None:
    two = [name for name in ALL.selected if name.startswith("tensorflow-2.21")]
    before = ALL.without([name for name in ALL.selected if name not in two])
    plan, tree = join_targets(before, TREE)
    assert [target.id for target in plan.targets if ROOTFS not in target.id] == list(before.selected)
    assert len({plan.target(name).dockerfile for name in two}) == len(two)
    assert all(joined_stages(plan, tree, name) for name in two)


def test_each_step_keeps_the_wheels_of_its_own_lock_files() -> None:
    """So that a wheel in a user's own folder changes the steps that install it, and no other."""
    identifier = "pytorch-2.15-training-cu132-py313"
    plan, _ = join_targets(plan_of(identifier), TREE)
    found = {name: value for name, value in plan.target(identifier).contexts.items() if name.startswith("wheels")}
    assert {
        name: [Path(path).stem for path in value.locks] for name, value in found.items() if isinstance(value, Host)
    } == {
        "wheels-cuda": ["cuda"],
        "wheels-horovod": ["cuda", "framework", "compiled"],
        "wheels-framework": ["framework"],
        "wheels-training": ["training"],
    }
