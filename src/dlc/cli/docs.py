"""`dlc docs`: updates the README's table of images."""

from __future__ import annotations

import argparse

from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import SpecError
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.images.inspection import readme
from dlc.plan.plan import Plan, make_plan

HELP = "update the README's table of images, with the sizes of those that are built"
EXAMPLE = "dlc docs --check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--check."""
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing and use no engine; fail if the table is not what the buildspec says",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Update the table, with the sizes of images that are up to date. With --check, raise SpecError if stale."""
    root = find_root()
    plan = make_plan(read_tree(root))
    path = root / readme.README
    before = path.read_text(encoding="utf-8")
    targets = [plan.target(identifier) for identifier in plan.selected]
    fresh = readme.updated(before, targets, {} if args.check else _sizes(plan))
    if fresh == before:
        return 0
    if args.check:
        raise SpecError(f"{readme.README}: the table of images is not what the buildspec says", "dlc docs")
    path.write_text(fresh, encoding="utf-8")
    print(readme.README)
    return 0


def _sizes(plan: Plan) -> dict[str, int]:
    """Bytes, unpacked, of the selected images that are built and up to date, by id."""
    engine = connect()
    existing = images.keys(engine, plan.refs)
    built = [d.id for d in plan.decisions(existing) if d.id in plan.selected and not d.build]
    return {identifier: images.size(engine, plan.target(identifier).tags[0]) for identifier in built}
