"""Joins an image's targets into one, so that a cache is read for the whole image at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlc.build.export.dockerfile import ROOTFS, add_stage, find_stage_name, list_dockerfiles
from dlc.build.export.stages import Stage, order_stages, rename_sources
from dlc.core.checkout import SourceFile, Tree
from dlc.plan.contexts import TargetRef
from dlc.plan.plan import Plan
from dlc.plan.targets import Target


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
        stages = order_stages(_collect_stages(joined, tree), last)
        files[path] = SourceFile("\n".join(stage.text for stage in stages).encode())
        kept[identifier] = _join(plan.target(identifier), joined, path, last)
    return Plan(tuple(kept.values()), plan.selected), files


def _join(image: Target, parts: Sequence[Target], dockerfile: str, stage: str) -> Target:
    inside = {TargetRef(part.id) for part in parts}
    contexts = {name: value for part in parts for name, value in part.contexts.items() if value not in inside}
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
