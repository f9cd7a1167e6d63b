"""`dlc plan`: what a build would do, target by target, without doing it."""

from __future__ import annotations

import argparse
import sys
from datetime import date
from typing import TYPE_CHECKING

from dlc.cli.arguments import add_globs, add_json, add_set, print_json

if TYPE_CHECKING:
    from dlc.plan.contexts import Image
    from dlc.plan.plan import Decision, Plan
    from dlc.plan.targets import Target

HELP = "show the targets of a build: parents, arguments, tags, labels, content keys"
EXAMPLE = "dlc plan 'pytorch-*-cpu-*' --engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GLOB, --set, --engine, --json."""
    add_globs(parser)
    add_set(parser)
    parser.add_argument("--engine", action="store_true", help="ask the Docker engine what is up to date and skipped")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    from dlc.buildspec.lifecycle import warnings
    from dlc.buildspec.matrix import load_variants
    from dlc.core.checkout import find_root, read_tree
    from dlc.plan.plan import plan_of

    tree = read_tree(find_root())
    variants = load_variants(tree, args.globs, args.sets)
    plan = plan_of(variants, tree, args.globs, args.sets)
    notes = warnings(variants, date.today())
    for note in notes:
        print(f"dlc: warning: {note}", file=sys.stderr)
    decisions: tuple[Decision, ...] = ()
    if args.engine:
        images, existing = _asked(plan)
        plan = plan_of(variants, tree, args.globs, args.sets, images)
        decisions = plan.decisions(existing)
    if args.json:
        print_json({**plan.as_dict(), "decisions": [vars(decision) for decision in decisions], "warnings": notes})
    else:
        print(as_text(plan, decisions))
    return 0


def _asked(plan: Plan) -> tuple[dict[str, Image], dict[str, str]]:
    """Base images, and content keys of the images an engine has; a plan never starts an engine."""
    from dlc.build.base_images import resolve
    from dlc.engine.connection import connect
    from dlc.engine.images import keys

    engine = connect(start=False)
    return resolve(plan, engine), keys(engine, [tag for target in plan.targets for tag in target.tags])


def as_text(plan: Plan, decisions: tuple[Decision, ...] = ()) -> str:
    """One paragraph per target, in the order of the build."""
    by_id = {decision.id: decision for decision in decisions}
    blocks = [_paragraph(target, by_id.get(target.id)) for target in plan.targets]
    return "\n\n".join([*blocks, f"{len(plan.targets)} targets for {len(plan.selected)} images"])


def _paragraph(target: Target, decision: Decision | None) -> str:
    recipe = "(written by dlc)" if target.inline else target.dockerfile
    lines = [target.id]
    if decision:
        lines.append(f"  {'build' if decision.build else 'skip'}     {decision.why}")
    lines.append(f"  key       {target.key}")
    lines.append(f"  recipe    {recipe}" + (f", stage {target.stage}" if target.stage else ""))
    lines.append(f"  platform  {target.platform}")
    lines += [f"  context   {name}={value}" for name, value in {".": target.context, **target.contexts}.items()]
    lines += [f"  arg       {name}={value}" for name, value in target.args.items()]
    lines += [f"  tag       {tag}" for tag in target.tags]
    lines += [f"  label     {name}={value}" for name, value in target.labels.items()]
    return "\n".join(lines)
