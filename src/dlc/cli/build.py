"""`dlc build`: builds what is not there yet, shows each step, and ends with what to type next."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from dlc.build import base_images, disk, host
from dlc.build import run as build
from dlc.build.display import Display, open_display
from dlc.buildspec import lifecycle
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.variant import Variant
from dlc.core.checkout import Tree, find_root, read_tree
from dlc.core.drafts import writing
from dlc.core.environment import cache_folder
from dlc.engine import images
from dlc.engine.connection import Engine, connect
from dlc.plan.plan import Plan, plan_of

HELP = "build the images a selector names, and the parents they need"
EXAMPLE = "dlc build 'pytorch-*-cpu-*' --set base.image=debian:12"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Selectors, --set, --no-disk-check and --json."""
    parser.add_argument("glob", nargs="+", metavar="GLOB", help="which images, as in 'tensorflow-*'")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="change a setting")
    parser.add_argument("--no-disk-check", action="store_true", help="start even where the disk seems too small")
    parser.add_argument("--json", action="store_true", help="print the results as JSON; progress goes to stderr")


def run(args: argparse.Namespace) -> int:
    """Plan, skip what is up to date, build the rest, report."""
    root = find_root()
    tree = read_tree(root)
    variants = load_variants(tree, args.glob, args.set)
    plan = plan_of(variants, tree, args.glob, args.set)
    for warning in lifecycle.warnings(variants, datetime.now(UTC).date()):
        print(f"dlc: warning: {warning}", file=sys.stderr)
    with open_display(plain=args.json, stream=sys.stderr, environment=os.environ) as display:
        with display.during("Docker engine", "find it, or start one"):
            engine = connect()
        engine.require_platform()
        if bases := base_images.resolve(plan, engine):
            plan = plan_of(variants, tree, args.glob, args.set, bases)
        results = _build(plan, variants, engine, root, tree, display, disk_check=not args.no_disk_check)
    if args.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        _report(results, engine)
    return 0


def _build(
    plan: Plan,
    variants: Sequence[Variant],
    engine: Engine,
    root: Path,
    tree: Tree,
    display: Display,
    *,
    disk_check: bool,
) -> list[build.Result]:  # fmt: skip
    """What the engine has of the selected images after those were built that it lacked."""
    existing = images.keys(engine, [tag for target in plan.targets for tag in target.tags])
    current = [decision.id for decision in plan.decisions(existing) if not decision.build]
    remaining = plan.without(current)
    seconds = 0.0
    if remaining.selected:
        if disk_check and (folder := disk.data_folder(engine)):
            missing = [variant for variant in variants if variant.id in remaining.selected]
            disk.require_room(disk.need(missing, existing, containerd_store=engine.containerd_store), folder)
        revision, epoch = build.revision_and_epoch(root)
        cache = cache_folder()
        with display.during("this host", "base file system, locked wheels, downloads"), writing(cache):
            inputs = host.collect(remaining, tree, cache)
        seconds = build.build(
            remaining, engine, inputs, build.new_log(cache, "build"), epoch=epoch, revision=revision,
            on_step=display.finished, on_running=display.running,
        )  # fmt: skip
    return build.results(plan, engine, seconds, set(remaining.selected))


def _report(results: Sequence[build.Result], engine: Engine) -> None:
    for result in results:
        state = f"built in {result.seconds:.0f} s" if result.built else "up to date"
        print(f"{result.ref}  {state}")
        print(f"  digest  {result.digest}")
        print(f"  size    {result.size / 1e9:.2f} GB")
    last = results[-1]
    where = f"DOCKER_HOST={engine.host} " if engine.host else ""
    framework = last.id.partition("-")[0]
    package = {"pytorch": "torch"}.get(framework, framework)
    print(f"next: {where}docker run --rm {last.ref} {shlex.join(['python', '-c', f'import {package}'])}")
