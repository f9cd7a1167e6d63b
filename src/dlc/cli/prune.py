"""`dlc prune`: lists the images of a registry that no tag needs any more, and removes them if it is told to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from dlc.buildspec.matrix import list_frameworks
from dlc.cli.shared.arguments import add_json, parse_count, print_json, print_text, say_progress
from dlc.core import environment
from dlc.core.checkout import read_workspace
from dlc.registry import prune, removal
from dlc.registry.client.destination import open_destination
from dlc.registry.prune import Choice, Retention

HELP = "list the images of a registry that no tag needs any more; remove them with --yes"
EXAMPLE = "dlc prune registry.example/staging --keep 3 --days 14 --yes"
KEEP, DAYS = 5, 30
# What happens to an image -> its colour.
STATES = {"remove": "bad", "keep": "good"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add REGISTRY/REPO, --keep, --days, --yes, --json."""
    parser.add_argument("registry", metavar="REGISTRY/REPO", help="as dlc push --to has it")
    parser.add_argument(
        "--keep", type=parse_count, default=KEEP, metavar="N", help="keep the last N builds of each image (%(default)s)"
    )
    parser.add_argument(
        "--days", type=parse_count, default=DAYS, metavar="N",
        help="keep builds whose commit is younger than N days (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="remove; without it nothing is removed")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what would be removed and why; with --yes remove it."""
    frameworks = list_frameworks(read_workspace())
    place = open_destination(args.registry, environment.find_ca_bundle(os.environ), option="prune")
    own_day = datetime.now(UTC).date()
    rows = []
    for framework in frameworks:
        repository = place.repository(framework, say_progress)
        today = prune.find_today(repository, own_day, say_progress)
        choices = prune.choose(prune.list_repository(repository, say_progress), Retention(args.keep, args.days), today)
        name = place.reference(framework)
        if not args.json and choices:
            print_text(as_text(name, choices), STATES)
        gone = removal.remove(repository, choices, say_progress) if args.yes else []
        if not args.json and choices:
            print_text(f"  {count(choices, gone if args.yes else None)}")
        rows += [{"repository": name, **asdict(each), "removed": each.name in gone} for each in choices]
    if args.json:
        print_json(rows)
    return 0


def as_text(name: str, choices: Sequence[Choice]) -> str:
    """Return a line for each image of a repository and for each of its tags."""
    lines = [name]
    for choice in choices:
        lines.append(f"  {'remove' if choice.remove else 'keep':<6}  {choice.name}  {choice.why}")
        lines += [f"          {tag}" for tag in choice.tags if tag != choice.name]
    return "\n".join(lines)


def count(choices: Sequence[Choice], gone: Sequence[str] | None) -> str:
    """Say how many are removed, or would be if `gone` is None."""
    if gone is None:
        return f"{sum(choice.remove for choice in choices)} of {len(choices)} would be removed: --yes"
    return f"{len(gone)} of {len(choices)} are removed; the registry frees their space when it collects garbage"
