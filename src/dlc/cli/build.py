"""`dlc build`: begins to look for the engine, and imports `build_images` while it answers."""

from __future__ import annotations

import argparse

from dlc.cli.shared.arguments import add_back, add_globs, add_json, add_set, fill_globs
from dlc.core.checkout import read_workspace
from dlc.engine.connection import search_engine

HELP = "build images that are missing or stale"
EXAMPLE = "dlc build 'pytorch-*-cpu-*' --set base.image=debian:12"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --set, --builder, --cache-from, --cache-to, --push, --back, --dry-run, --no-disk-check, --json."""
    add_globs(parser, at_least_one=True)
    add_set(parser)
    parser.add_argument("--builder", metavar="NAME", help="a builder of docker buildx, for example on another machine")
    for option, what in (("--cache-from", "look for finished steps there"), ("--cache-to", "write them there")):
        parser.add_argument(
            option, action="append", default=[], metavar="CACHE",
            help=f"{what}: type=registry,ref=..., gha, s3 or local; {{image}} in it is the image; may be repeated",
        )  # fmt: skip
    parser.add_argument(
        "--push", metavar="REGISTRY/REPO|ecr", help="the builder pushes, and no engine of this host is used"
    )
    add_back(parser)
    parser.add_argument("--dry-run", action="store_true", help="say which images would be built, and why; build none")
    parser.add_argument("--no-disk-check", action="store_true", help="build even if the disk seems too small")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, skip what is up to date, build the rest, report."""
    if not args.globs:
        fill_globs(args, read_workspace())
    # Empty, as a variable that CI has not set, they are errors.
    if args.push is not None:
        from dlc.cli.shared.build_on_builder import build_and_push

        return build_and_push(args)
    if args.builder is not None:
        from dlc.cli.shared.build_on_builder import choose_engine

        choose_engine(args)
    found = search_engine()
    if args.dry_run:
        from dlc.cli.shared.plan_decisions import show_decisions

        return show_decisions(args, found)
    # Not at the top: importing it takes as long as the engine's answer.
    from dlc.cli.shared.build_images import build_with_engine

    return build_with_engine(args, found)
