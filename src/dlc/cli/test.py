"""`dlc test`: runs tests/container on the built images."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec

from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import ImageTestError, UsageError
from dlc.core.process import stream_program
from dlc.engine.connection import connect

HELP = "run tests/container on the built images"
EXAMPLE = "dlc test 'pytorch-*-cpu-*' --all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --all."""
    parser.add_argument("glob", metavar="GLOB", help="which images, as in 'tensorflow-*'")
    parser.add_argument("--all", action="store_true", help="run tests/integration too: jobs on one host and on several")


def run(args: argparse.Namespace) -> int:
    """Run pytest. Raises ImageTestError for an exit code of pytest other than 0."""
    root = find_root()
    # A selector that matches nothing is an error before anything runs.
    load_variants(read_tree(root), [args.glob])
    if not (root / "tests/container").is_dir():
        raise UsageError(f"{root}: expected tests/container, found none", "run dlc test inside a checkout")
    if find_spec("xdist") is None:
        raise UsageError(
            "dlc test needs pytest with its plug-ins, which this Python does not have", "scripts/bootstrap.sh dev"
        )
    engine = connect()
    folders = ["tests/container", "tests/integration"] if args.all else ["tests/container"]
    # More at once than cores: jobs wait for each other more than they compute.
    beside_each_other = ["-n", str(3 * (os.cpu_count() or 1)), "--dist", "loadfile", "--no-loadscope-reorder"]
    argv = [sys.executable, "-m", "pytest", *beside_each_other, *folders, "-m", "image", "--image", args.glob]
    code = stream_program(argv, lambda line: print(line, flush=True), env=engine.environment, cwd=root)
    if code:
        raise ImageTestError(f"{args.glob}: the tests did not pass (pytest's exit code {code})")
    return 0
