"""Arguments that several verbs take, so that they mean the same everywhere."""

from __future__ import annotations

import argparse
import json


def add_globs(parser: argparse.ArgumentParser) -> None:
    """Which images: any number of globs, none for all."""
    parser.add_argument("globs", nargs="*", metavar="GLOB", help="image identifiers, such as 'pytorch-*-cpu-*'; quoted")


def add_set(parser: argparse.ArgumentParser) -> None:
    """Changes of settings on the command line."""
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="PATH=VALUE",
        help="change a setting, such as base.image=debian:12; may be repeated",
    )  # fmt: skip


def add_json(parser: argparse._ActionsContainer) -> None:
    """JSON instead of text."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def print_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2))
