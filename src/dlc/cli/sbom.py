"""`dlc sbom`: prints the software bill of materials of a built image."""

from __future__ import annotations

import argparse

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import add_json, parse_path, show_work
from dlc.core.atomic_files import write_output
from dlc.core.checkout import read_workspace
from dlc.core.platforms import ANY_PLATFORM
from dlc.engine.connection import connect
from dlc.engine.pushed import pull_pushed
from dlc.inspection import cyclonedx, facts, sbom

HELP = "print the software bill of materials of a built image (SPDX or CycloneDX, JSON)"
EXAMPLE = "dlc sbom pytorch-2.13-training-cpu-py311 --output pytorch.spdx.json"

FORMATS = {"spdx": sbom.render_json, "cyclonedx": cyclonedx.render_json}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, --format, --json, --output."""
    parser.add_argument("image", metavar="ID", help="an image identifier, or a Docker reference")
    parser.add_argument(
        "--format", choices=FORMATS, default="spdx", help="SPDX 2.3 or CycloneDX 1.6 (default: %(default)s)"
    )
    # The document is JSON anyway.
    add_json(parser)
    parser.add_argument(
        "--output", type=parse_path, metavar="FILE", help="write to this file instead of standard output"
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the document."""
    ref, _ = selection.find_image(args.image, load_variants(read_workspace(), platform=ANY_PLATFORM))
    engine = connect()
    pull_pushed(engine, [ref])
    with show_work(ref, "packages"):
        found = facts.capture_facts(engine, ref)
    text = FORMATS[args.format](found)
    if args.output:
        write_output(args.output, text)
    else:
        print(text, end="")
    return 0
