"""`dlc plan`: what a build would do, target by target, without doing it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dlc.cli.shared.arguments import (
    add_globs,
    add_json,
    add_set,
    fill_globs,
    parse_path,
    print_json,
    print_text,
    warn_of_end,
)
from dlc.cli.shared.plan_decisions import DECISIONS, as_text, warn_undated_project
from dlc.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc.buildspec.variant import Variant
    from dlc.core.checkout import Tree
    from dlc.plan.plan import Decision, Plan
    from dlc.plan.targets import Target

HELP = "show what a build would do: images and why each is built; or every target with all that goes into it"
EXAMPLE = "dlc plan 'pytorch-*-cpu-*' --engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set, --engine, --against, --changed-since, --missing-from, --names, --targets, --json."""
    add_globs(parser)
    add_set(parser)
    parser.add_argument(
        "--against", type=parse_path, metavar="WHEEL",
        help="show what another version of dlc changes: its wheel, or a checkout of it",
    )  # fmt: skip
    parser.add_argument(
        "--changed-since", metavar="REV",
        help="show the images whose content key is another one than at this commit, tag or branch",
    )  # fmt: skip
    parser.add_argument(
        "--missing-from", metavar="REGISTRY/REPO|ecr",
        help="show the images whose tag there means no image, or one with another content key",
    )  # fmt: skip
    parser.add_argument(
        "--names", action="store_true",
        help="with --changed-since or --missing-from: print nothing but their names, one on a line",
    )  # fmt: skip
    parser.add_argument("--engine", action="store_true", help="ask the Docker engine which images are up to date")
    parser.add_argument(
        "--targets", action="store_true",
        help="show each target: parents, arguments, tags, labels, content key",
    )  # fmt: skip
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    if args.against is not None:
        from dlc.cli.shared.plan_changes import show_changes

        return show_changes(args)
    if args.changed_since is not None and args.missing_from is not None:
        raise UsageError("dlc plan: expected --changed-since or --missing-from, found both", "leave one of them out")
    if args.names and args.changed_since is None and args.missing_from is None:
        raise UsageError(
            "dlc plan: --names is only for --changed-since and --missing-from", "dlc plan --changed-since REV --names"
        )
    if args.missing_from is not None:
        from dlc.cli.shared.plan_missing import show_missing

        return show_missing(args)
    if args.changed_since is not None:
        from dlc.cli.shared.plan_since import show_rebuilt

        return show_rebuilt(args)
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import find_workspace, read_workspace
    from dlc.plan.own_image import explain_own_layers
    from dlc.plan.plan import plan_variants

    workspace = find_workspace()
    tree = read_workspace(workspace)
    fill_globs(args, tree)
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    plan = plan_variants(variants, tree, args.globs, args.sets)
    warnings = warn_of_end(variants)
    warn_undated_project(workspace)
    decisions: tuple[Decision, ...] = ()
    if args.engine:
        plan, decisions = _compare_with_engine(variants, tree)
    if args.json:
        print_json({**plan.as_dict(), "decisions": [vars(decision) for decision in decisions], "warnings": warnings})
    else:
        print_text(targets_as_text(plan, decisions) if args.targets else as_text(plan, decisions), DECISIONS)
        for line in explain_own_layers(variants, tree):
            print(line)
    return 0


def _compare_with_engine(variants: Sequence[Variant], tree: Tree) -> tuple[Plan, tuple[Decision, ...]]:
    """Return the plan with digests of base images, and what of it the engine has. Starts no engine."""
    from dlc.engine.connection import connect
    from dlc.engine.images import find_keys
    from dlc.image_build.base_images import plan_with_digests

    engine = connect(start=False)
    plan = plan_with_digests(variants, tree, engine)
    return plan, plan.decisions(find_keys(engine, plan.refs))


def targets_as_text(plan: Plan, decisions: tuple[Decision, ...] = ()) -> str:
    """Return a paragraph per target, in the order of the build."""
    by_id = {decision.id: decision for decision in decisions}
    blocks = [_format_target(target, by_id.get(target.id)) for target in plan.targets]
    return "\n\n".join([*blocks, f"{len(plan.targets)} targets for {len(plan.selected)} images"])


def _format_target(target: Target, decision: Decision | None) -> str:
    dockerfile = "(written by dlc)" if target.inline else target.dockerfile
    lines = [target.id]
    if decision:
        lines.append(f"  {'build' if decision.build else 'skip'}     {decision.why}")
    lines.append(f"  key       {target.key}")
    lines.append(f"  file      {dockerfile}" + (f", stage {target.stage}" if target.stage else ""))
    lines.append(f"  platform  {target.platform}")
    lines += [f"  context   {name}={value}" for name, value in {".": target.context, **target.contexts}.items()]
    lines += [f"  arg       {name}={value}" for name, value in target.args.items()]
    lines += [f"  tag       {tag}" for tag in target.tags]
    lines += [f"  label     {name}={value}" for name, value in target.labels.items()]
    return "\n".join(lines)
