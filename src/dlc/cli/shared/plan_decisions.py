"""What `dlc plan --engine` and `dlc build --dry-run` print: which images a build would make, and why."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import print_json, print_text, warn_of_end
from dlc.core.checkout import is_in_git

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dlc.core.checkout import Workspace
    from dlc.engine.docker_client import Engine
    from dlc.plan.plan import Decision, Plan

# Characters of a content key, as messages show it.
KEY_LENGTH = 12
# What is decided on an image -> its colour.
DECISIONS = {"build": "note", "skip": "good"}


def show_decisions(args: argparse.Namespace, found: Future[Engine | None]) -> int:
    """Print what `dlc build` of these words would do, and why; without an engine that is to build them all."""
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import find_workspace, read_workspace
    from dlc.engine.connection import absence_error
    from dlc.engine.images import find_keys
    from dlc.image_build.base_images import plan_with_digests
    from dlc.plan.plan import plan_variants

    workspace = find_workspace()
    tree = read_workspace(workspace)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    plan = plan_variants(variants, tree, args.globs, args.sets)
    warnings = warn_of_end(variants)
    warn_undated_project(workspace)
    if engine := found.result():
        engine.require_buildkit()
        plan = plan_with_digests(variants, tree, engine)
    else:
        print(f"dlc: {absence_error()}: a build would start one, which has no images", file=sys.stderr)
    decisions = plan.decisions(find_keys(engine, plan.refs) if engine else {})
    if args.json:
        print_json({**plan.as_dict(), "decisions": [vars(decision) for decision in decisions], "warnings": warnings})
    else:
        print_text(as_text(plan, decisions), DECISIONS)
    return 0


def warn_undated_project(workspace: Workspace) -> None:
    """Warn of a project outside git, as a build does. No program is started for it."""
    root = workspace.project
    if root and not is_in_git(root):
        from dlc.image_build.buildx import read_epoch, warn_undated

        warn_undated(root, "unknown", read_epoch() or 0)


def as_text(plan: Plan, decisions: tuple[Decision, ...] = ()) -> str:
    """Return a line for each image; with decisions what would be done with it, and why."""
    width = max(map(len, plan.selected), default=0)
    count = f"{len(plan.targets)} targets for {len(plan.selected)} images; --targets shows each"
    if not decisions:
        keys = [f"{name:<{width}}  {plan.target(name).key[:KEY_LENGTH]}" for name in plan.selected]
        return "\n".join([*keys, f"{count}, --engine which images would be built"])
    of_images = [decision for decision in decisions if decision.id in plan.selected]
    lines = [f"{'build' if each.build else 'skip':<5}  {each.id:<{width}}  {each.why}" for each in of_images]
    built = sum(decision.build for decision in of_images)
    targets = sum(decision.build for decision in decisions)
    count = f", by {targets} targets; `dlc plan --targets` shows each" if built else ""
    return "\n".join([*lines, f"{built} of {len(of_images)} images would be built{count}"])
