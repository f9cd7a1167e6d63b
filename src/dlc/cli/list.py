"""`dlc list`: the images there are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlc.cli.arguments import add_globs, add_json, add_set, print_json

if TYPE_CHECKING:
    from dlc.variant import Variant

HELP = "list the images of the buildspec with their key facts"
EXAMPLE = "dlc list 'pytorch-*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GLOB, --set, --engine, --json."""
    add_globs(parser)
    add_set(parser)
    parser.add_argument("--engine", action="store_true", help="size, digest and date of those the Docker engine has")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per image."""
    from dlc.locked import staleness
    from dlc.matrix import load_variants
    from dlc.tree import find_root, read_tree

    tree = read_tree(find_root())
    variants = load_variants(tree, args.globs, args.sets)
    rows = [
        {
            "id": variant.id,
            "framework": variant.framework_requirements[0],
            "device": variant.settings.device,
            "python": variant.settings.python,
            "os": variant.settings.base.image or variant.suite,
            "lock": "stale" if staleness(tree, variant) else "fresh",
            "ref": variant.ref,
        }
        for variant in variants
    ]
    if args.engine:
        rows = [{**row, **built} for row, built in zip(rows, _built([row["ref"] for row in rows]), strict=True)]
    if args.json:
        absent = [dict(variant.header.unavailable) for variant in variants]
        print_json([{**row, "unavailable": what} for row, what in zip(rows, absent, strict=True)])
    else:
        print("\n".join([table(rows), *unavailable(variants)]))
    return 0


def unavailable(variants: Sequence[Variant]) -> list[str]:
    """One line for each thing that a version cannot have, with the reason; a version is named once."""
    headers = {f"{v.header.framework} {v.header.version}": v.header.unavailable for v in variants}
    return [f"no {what} for {name}: {why}" for name, absent in headers.items() for what, why in absent.items()]


def _built(refs: list[str]) -> list[dict[str, str]]:
    """Size, digest and date of each image, dashes where the engine does not have it; it is never started for this."""
    from dlc.engine.connection import connect
    from dlc.engine.images import find

    found = find(connect(start=False), refs)
    return [
        {"size": f"{found[ref].size / 1e9:.2f} GB", "digest": found[ref].digest, "created": found[ref].created}
        if ref in found else dict.fromkeys(("size", "digest", "created"), "-")
        for ref in refs
    ]  # fmt: skip


def table(rows: list[dict[str, str]]) -> str:
    """Rows as aligned columns under their names."""
    names = list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    lines = [[name.upper() for name in names], *([row[name] for name in names] for row in rows)]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)  # fmt: skip
