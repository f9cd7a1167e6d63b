"""Joins an image's targets into one, so that a cache is read for the whole image at once. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from dlc.core.checkout import SourceFile, Tree
from dlc.image_build.export.dockerfile import ROOTFS, add_stage, find_stage_name, list_dockerfiles
from dlc.image_build.export.stages import Stage, order_stages, rename_sources
from dlc.plan.contexts import Context, Host, TargetRef
from dlc.plan.plan import Plan
from dlc.plan.targets import Target

WHEELS = "wheels"
# What a step mounts of a lock's folder.
LOCK_FILE = re.compile(r"--mount=type=bind,source=(\w+\.txt),")


def join_targets(plan: Plan, tree: Tree) -> tuple[Plan, Tree]:
    """Return the plan with one target for each image, beside the root file systems, and the tree with its Dockerfile.

    BuildKit reads a cache anew for each target of a bake, and then knows no step by a layer that it began in another
    target (moby/buildkit issue 4674): so frameworks would be installed again.
    Steps and content keys stay as they are.
    """
    kept: dict[str, Target] = {}
    files = dict(tree)
    for identifier in plan.selected:
        below = plan.ancestry(identifier)
        parts = [target for target in plan.targets if target.id in below]
        kept.update({target.id: target for target in parts if ROOTFS in target.id})
        path = f"docker/joined/{identifier}/Dockerfile"
        joined = [target for target in parts if ROOTFS not in target.id]
        last = find_stage_name(plan.target(identifier), tree)
        stages, wheels = _part_wheels(order_stages(_collect_stages(joined, tree), last), joined)
        files[path] = SourceFile("\n".join(stage.text for stage in stages).encode())
        kept[identifier] = _join(plan.target(identifier), joined, wheels, path, last)
    return Plan(tuple(kept.values()), plan.selected), files


def _part_wheels(stages: Sequence[Stage], parts: Sequence[Target]) -> tuple[list[Stage], dict[str, Context]]:
    """Return the stages, each with a folder of wheels of its own, and these folders by their new names.

    What a step mounts of its lock tells which of the targets' folders it is.
    """
    folders = [value for part in parts if isinstance(value := part.contexts.get(WHEELS), Host)]
    every = Host(WHEELS, locks=tuple(dict.fromkeys(path for folder in folders for path in folder.locks)))
    parted, found = [], dict[str, Context]()
    for stage in stages:
        if WHEELS in stage.sources:
            mounted = set(LOCK_FILE.findall(stage.body))
            name = f"{WHEELS}-{stage.name}"
            fitting = (each for each in folders if {PurePath(path).name for path in each.locks} == mounted)
            found[name] = next(fitting, every)
            stage = rename_sources(stage, {WHEELS: name})
        parted.append(stage)
    return parted, found


def _join(image: Target, parts: Sequence[Target], wheels: Mapping[str, Context], dockerfile: str, stage: str) -> Target:
    inside = {TargetRef(part.id) for part in parts}
    contexts = {name: value for part in parts for name, value in part.contexts.items() if value not in inside}
    contexts = {**{name: value for name, value in contexts.items() if name != WHEELS}, **wheels}
    args = {name: value for part in parts for name, value in part.args.items()}
    return replace(image, dockerfile=dockerfile, stage=stage, contexts=contexts, args=args)


def _collect_stages(parts: Sequence[Target], tree: Tree) -> dict[str, Stage]:
    """Return the stages of all Dockerfiles, with names of stages in place of links to other targets."""
    targets = {TargetRef(part.id): part for part in parts}
    stages: dict[str, Stage] = {}
    for dockerfile, owners, own in list_dockerfiles(parts, tree):
        names = {
            name: find_stage_name(targets[value], tree)
            for owner in owners
            for name, value in owner.contexts.items()
            if isinstance(value, TargetRef) and value in targets
        }
        for stage in own:
            add_stage(stages, rename_sources(stage, names), dockerfile)
    return stages
