"""`dlc schema`: writes the JSON Schemas of the buildspec files; for whoever changes the models."""

from __future__ import annotations

import argparse
from pathlib import Path
from pathlib import Path

HELP = "write the JSON Schemas of the buildspec files that are not fresh"
EXAMPLE = "dlc schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--check."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is not up to date")


def run(args: argparse.Namespace) -> int:
    """Write every schema file and name it."""
    from dlc.schema import schemas
    from dlc.tree import find_root

    root = find_root()
    stale = [path for path, text in schemas().items() if not _is(root / path, text)]
    for path in stale:
        print(f"{path}: {'stale, run dlc schema' if args.check else 'written'}")
        if not args.check:
            (root / path).write_text(schemas()[path])
    return int(bool(stale) and args.check)


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
