"""`dlc build`: builds what is not there yet, shows each step, and ends with what to type next."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from dlc.build import base_images, disk, host
from dlc.build import run as build
from dlc.build.progress import Step
from dlc.core.cache import cache_folder
from dlc.core.checkout import find_root, read_tree
from dlc.engine import images
from dlc.engine.connection import Engine, connect
from dlc.plan.plan import make_plan

HELP = "build the images a selector names, and the parents they need"
EXAMPLE = "dlc build 'pytorch-*-cpu-*' --set base.image=debian:12"

SHOWN_COMMANDS = ("RUN", "COPY", "ADD", "exporting")
SHOWN_WIDTH = 80


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
    plan = make_plan(tree, args.glob, args.set)
    engine = connect()
    if bases := base_images.resolve(plan, engine):
        plan = make_plan(tree, args.glob, args.set, bases)
    existing = images.keys(engine, [tag for target in plan.targets for tag in target.tags])
    decisions = plan.decisions(existing)
    skipped = [d.id for d in decisions if d.id in plan.selected and not d.build]
    remaining = plan.without(skipped)
    seconds = 0.0
    if remaining.selected:
        if not args.no_disk_check and (folder := disk.data_folder(engine)):
            disk.require_room(disk.predict(remaining, tree, existing, containerd_store=engine.containerd_store), folder)
        revision, epoch = build.revision_and_epoch(root)
        inputs = host.collect(remaining, tree, cache_folder())
        log = cache_folder() / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-build.log"
        seconds = build.build(
            remaining, engine, inputs, log, epoch=epoch, revision=revision, on_step=_show
        )  # fmt: skip
    results = build.results(plan, engine, seconds, set(remaining.selected))
    if args.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        _report(results, engine)
    return 0


def _show(step: Step) -> None:
    """One line per step that did something."""
    if not step.cached and step.command.startswith(SHOWN_COMMANDS):
        print(f"  {step.seconds:6.1f} s  {step.name}  {_short(step.command)}", file=sys.stderr, flush=True)


def _short(command: str) -> str:
    """The script that a long RUN line comes down to."""
    text = " ".join(word for word in command.split() if not word.startswith("--"))
    return text if len(text) <= SHOWN_WIDTH else text[: SHOWN_WIDTH - 3] + "..."


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
