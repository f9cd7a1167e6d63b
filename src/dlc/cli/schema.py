"""`dlc schema`: writes the JSON Schemas of the buildspec files; for whoever changes the models."""

from __future__ import annotations

import argparse

HELP = "write the JSON Schemas of the buildspec files"
EXAMPLE = "dlc schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(args: argparse.Namespace) -> int:
    """Write every schema file and name it."""
    from dlc.schema import schemas
    from dlc.tree import find_root

    root = find_root()
    for path, text in schemas().items():
        (root / path).write_text(text)
        print(path)
    return 0
