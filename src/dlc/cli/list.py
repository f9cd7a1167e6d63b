"""`dlc list`: the images there are."""

from __future__ import annotations

import argparse

from dlc.cli.arguments import add_globs, add_json, add_set, print_json

HELP = "list the images of the buildspec with their key facts"
EXAMPLE = "dlc list 'pytorch-*'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GLOB, --set, --json."""
    add_globs(parser)
    add_set(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line per image."""
    from dlc.locked import staleness
    from dlc.matrix import load_variants
    from dlc.tree import find_root, read_tree

    tree = read_tree(find_root())
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
        for variant in load_variants(tree, args.globs, args.sets)
    ]
    if args.json:
        print_json(rows)
    else:
        print(table(rows))
    return 0


def table(rows: list[dict[str, str]]) -> str:
    """Rows as aligned columns under their names."""
    names = list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    lines = [[name.upper() for name in names], *([row[name] for name in names] for row in rows)]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)  # fmt: skip
