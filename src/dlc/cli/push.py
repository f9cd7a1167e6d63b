"""`dlc push`: pushes built images to a registry, verifies them there, and moves their tags last."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import cache, partial

from dlc.buildspec import variant
from dlc.buildspec.matrix import list_frameworks, load_variants
from dlc.buildspec.models import ScanException
from dlc.cli.shared.arguments import (
    add_back,
    add_globs,
    add_json,
    add_set,
    fill_globs,
    print_json,
    say_progress,
    show_work,
    warn_of_end,
    warn_of_other_tool,
)
from dlc.cli.shared.push_families import find_families, put_foreign_first
from dlc.cli.shared.push_proof import Prover, Scanned
from dlc.core import environment
from dlc.core.checkout import find_workspace, read_workspace
from dlc.core.compression import COMPRESSIONS
from dlc.core.labels import CREATED
from dlc.core.text import format_bytes
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.engine.docker_client import Engine
from dlc.engine.pushed import pull_pushed
from dlc.image_build import base_images
from dlc.image_build.buildx import read_revision
from dlc.inspection import facts, sbom
from dlc.inspection.advisories import read_exceptions
from dlc.inspection.scan import require_clean, scan_image
from dlc.plan.plan import plan_variants
from dlc.proof.signing import open_signer
from dlc.proof.statement import NAMES, SCAN, TESTS
from dlc.registry import push
from dlc.registry.client.destination import Destination, open_destination
from dlc.registry.platform_index import Family
from dlc.registry.push import Order, Pushed
from dlc.registry.tag_age import Claim, make_claim, require_no_newer

# What `dlc verify` asks for outside a checkout, and `dlc promote` everywhere -> why a push may not have it.
MISSING = {SCAN: "a scan (--no-scan)", TESTS: "tests (dlc test did not test this image on this machine)"}
HELP = "push built images to a registry and verify them there"
EXAMPLE = "dlc push 'pytorch-*-cpu-*' --to registry.example:5000/team"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --to, --compression, --unsupported, --no-scan, --sign, --back, --dry-run, --set, --json."""
    add_globs(parser, at_least_one=True)
    parser.add_argument(
        "--to", required=True, metavar="REGISTRY/REPO|ecr",
        help="the framework's name is added: registry.example/team/pytorch; ecr: the AWS account's own registry",
    )  # fmt: skip
    parser.add_argument(
        "--compression", choices=COMPRESSIONS, default="gzip", help="compression of layers (default: %(default)s)"
    )
    parser.add_argument("--unsupported", action="store_true", help="push images too that get no fixes any more")
    parser.add_argument("--no-scan", action="store_true", help="push without asking what dlc scan would say")
    parser.add_argument(
        "--sign", metavar="FILE",
        help="sign the image and what is known of it by this private key (PEM); keyless: as the identity of a CI job",
    )  # fmt: skip
    add_back(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be pushed, and push nothing")
    add_set(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Push one image after the other. The first error ends the run; images pushed before it stay."""
    workspace = find_workspace()
    tree = read_workspace(workspace)
    fill_globs(args, tree)
    # A wrong key ends the run before an engine is started.
    signer = open_signer(args.sign, os.environ) if args.sign is not None else None
    variants = load_variants(tree, args.globs, args.sets, args.platform)
    if not args.unsupported:
        variant.require_supported(variants)
    # Before an engine is started: a stale lock ends the run here.
    plan_variants(variants, tree, args.globs, args.sets)
    warn_of_end(variants)
    warn_of_other_tool(tree)
    # A wrong --to starts no engine either.
    destination = open_destination(args.to, environment.find_ca_bundle(os.environ), list_frameworks(tree))
    engine = connect()
    plan = base_images.plan_with_digests(variants, tree, engine)
    pull_pushed(engine, plan.refs)
    keys = images.find_keys(engine, plan.refs)
    orders = push.make_orders(plan, {ref: facts.inspect_image(engine, ref) for ref in keys}, keys, args.sets)
    exceptions = read_exceptions(tree)
    prover = Prover(signer, workspace, tree, engine, plan, variants, args.sets) if signer else None
    rows = []
    claims = {}
    _, epoch = read_revision(workspace.root)
    created = {order.id: str(order.inspected["Config"]["Labels"][CREATED]) for order in orders}
    families = {} if args.dry_run else find_families(variants, tree, args.sets, engine, created)
    for order in sorted(orders, key=lambda each: put_foreign_first(each.id)) if families else orders:
        if args.dry_run:
            row = _describe_intended(order, destination)
        else:
            # Once, for the scan and the bill of materials.
            captured = cache(partial(_capture, engine, order))
            scanned = None if args.no_scan else _scan(order, engine, captured(), exceptions)
            claims[order.id] = make_claim(order.inspected["Config"]["Labels"], epoch, back=args.back)
            row = _push_one(
                order, destination, engine=engine, compression=args.compression, captured=captured, prover=prover,
                scanned=scanned, family=families.get(order.id), claim=claims[order.id],
            )  # fmt: skip
        rows.append(row)
        if not args.json:
            print(as_text(row, destination.registry), flush=True)
    if args.json:
        print_json([{"registry": destination.registry, **asdict(row)} for row in rows])
    for row in rows if claims else ():
        require_no_newer(f"{destination.registry}/{row.repository}", row.newer, claims[row.id])
    return 0


def _capture(engine: Engine, order: Order) -> facts.Facts:
    with show_work(order.id, "packages"):
        return facts.capture_facts(engine, order.ref)


def _scan(order: Order, engine: Engine, found: facts.Facts, exceptions: Sequence[ScanException]) -> Scanned:
    """Scan an image. Raises as `require_clean` does."""
    started = datetime.now(UTC)
    with show_work(order.id, "known vulnerabilities") as say:
        scan = scan_image(engine, found, exceptions, os.environ, date.today(), say)
    require_clean(scan)
    return Scanned(scan, found, started)


def _push_one(
    order: Order, destination: Destination, *, engine: Engine, compression: str, captured: Callable[[], facts.Facts],
    prover: Prover | None, scanned: Scanned | None, family: Family | None, claim: Claim,
) -> Pushed:  # fmt: skip
    where = destination.reference(order.framework)
    repository = destination.repository(order.framework, say_progress)
    document = cache(lambda: sbom.render_json(captured()).encode())
    proof = prover.make_proof(order, where, document, scanned) if prover else None
    with show_work(order.id, f"to {where}"):
        return push.push_image(order, repository, engine, compression, say_progress, document, claim, proof, family)


def _describe_intended(order: Order, destination: Destination) -> Pushed:
    """Return what the push would report; the digest is only known once the layers are compressed."""
    return Pushed(order.id, destination.name(order.framework), "", "", order.tags, 0, 0.0)


def as_text(row: Pushed, registry: str) -> str:
    """Return the image's id and what happened, then its references in the registry."""
    where = f"{registry}/{row.repository}"
    tags = [f"  {where}:{tag}" for tag in row.tags]
    if not row.digest:
        return "\n".join([f"{row.id}  would be pushed", *tags])
    what = f"{format_bytes(row.uploaded)} sent in {row.seconds:.0f} s" if row.uploaded else "was there already"
    bill = f"  {where}@{row.bill_of_materials}  bill of materials"
    return "\n".join([f"{row.id}  {what}", f"  {where}@{row.digest}", bill, *tags, *list_attached(row)])


def list_attached(row: Pushed) -> list[str]:
    """Return a line for each signed statement, and what is missing for those who ask for tests and a scan."""
    if not row.attached:
        return []
    lines = ["  signed and attached:"]
    for each in row.attached:
        about = "" if each.image == row.digest else f"  of the index {each.image}"
        there = "  was there already" if each.was_there else ""
        lines.append(f"    {NAMES.get(each.kind, each.kind):<10}  {each.digest}{about}{there}")
    kinds = {each.kind for each in row.attached}
    lines += [f"  not attached: {what}" for kind, what in MISSING.items() if kind not in kinds]
    return lines
