"""`dlc schema`: writes the JSON Schemas of the buildspec files; for whoever changes the models."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write the JSON Schemas of the buildspec files that are not fresh"
EXAMPLE = "dlc schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--check."""
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not fresh")


def run(args: argparse.Namespace) -> int:
    """Write and name every schema file that is not fresh; with --check, raise SpecError with their names instead."""
    from dlc.errors import SpecError
    from dlc.schema import schemas
    from dlc.tree import find_root

    root = find_root()
    stale = {path: text for path, text in schemas().items() if not _is(root / path, text)}
    if args.check and stale:
        raise SpecError("\n".join(f"{path}: not what the models say" for path in stale), "dlc schema")
    for path, text in stale.items():
        (root / path).write_text(text)
        print(path)
    return 0


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
