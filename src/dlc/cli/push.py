"""`dlc push`: pushes built images to a registry, by digest, verified, their tags moved last."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from datetime import date

from dlc.build import base_images
from dlc.buildspec.lifecycle import warnings
from dlc.buildspec.matrix import load_variants
from dlc.cli.arguments import add_json, add_set, print_json
from dlc.core import environment
from dlc.core.checkout import find_root, read_tree
from dlc.engine import images
from dlc.engine.connection import Engine, connect
from dlc.inspection import facts
from dlc.plan.plan import make_plan
from dlc.push import run as pushing
from dlc.push.layout import COMPRESSIONS
from dlc.push.registry.destination import Destination, open_destination
from dlc.push.run import Order, Pushed

HELP = "push built images to a registry, verified there before their tags move"
EXAMPLE = "dlc push 'pytorch-*-cpu-*' --to registry.example:5000/team"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GLOB, --to, --compression, --dry-run, --set, --json."""
    parser.add_argument("glob", nargs="+", metavar="GLOB", help="which images, as in 'tensorflow-*'")
    parser.add_argument(
        "--to", required=True, metavar="REGISTRY/REPO|ecr",
        help="the framework's name is added: registry.example/team/pytorch; ecr: the AWS account's own registry",
    )  # fmt: skip
    parser.add_argument("--compression", choices=COMPRESSIONS, default="gzip", help="of layers (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be pushed where, and push nothing")
    add_set(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """One image after the other; the first error ends it, and what was pushed before stays."""
    tree = read_tree(find_root())
    plan = make_plan(tree, args.glob, args.sets)
    for warning in warnings(load_variants(tree, args.glob, args.sets), date.today()):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    engine = connect()
    if bases := base_images.resolve(plan, engine):
        plan = make_plan(tree, args.glob, args.sets, bases)
    engine.require_containerd_store()
    refs = pushing.refs_of(plan)
    keys = images.keys(engine, refs)
    orders = pushing.orders(plan, {ref: facts.inspect(engine, ref) for ref in keys}, keys, args.sets)
    destination = open_destination(args.to, environment.ca_bundle(os.environ))
    rows = []
    for order in orders:
        row = _intended(order, destination) if args.dry_run else _push(order, destination, engine, args.compression)
        rows.append(row)
        if not args.json:
            print(as_text(row, destination.host), flush=True)
    if args.json:
        print_json([{"registry": destination.host, **asdict(row)} for row in rows])
    return 0


def _push(order: Order, destination: Destination, engine: Engine, compression: str) -> Pushed:
    _say(f"{order.id} to {destination.reference(order.framework)}")
    repository = destination.repository(order.framework, _say)
    return pushing.push(order, repository, engine, compression, _say)


def _intended(order: Order, destination: Destination) -> Pushed:
    """What the push would report; the digest is only known once the layers are compressed."""
    return Pushed(order.id, destination.name(order.framework), "", order.tags, 0, 0.0)


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def as_text(row: Pushed, host: str) -> str:
    """The image's id and what happened, then every reference that means it now."""
    where = f"{host}/{row.repository}"
    tags = [f"  {where}:{tag}" for tag in row.tags]
    if not row.digest:
        return "\n".join([f"{row.id}  would be pushed", *tags])
    what = f"{row.uploaded / 1e6:.1f} MB sent in {row.seconds:.0f} s" if row.uploaded else "was there"
    return "\n".join([f"{row.id}  {what}", f"  {where}@{row.digest}", *tags])
