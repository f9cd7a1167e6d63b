"""`dlc diff`: what differs between two built images."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import add_json, parse_count, print_json, print_text, say_progress, show_work
from dlc.core.checkout import read_workspace
from dlc.core.platforms import ANY_PLATFORM
from dlc.core.process import run_beside
from dlc.engine.connection import connect
from dlc.inspection import archive, facts
from dlc.inspection import diff as image_diff

HELP = "compare two built images: packages, environment, labels, files, sizes"
EXAMPLE = "dlc diff dlc/pytorch:previous pytorch-2.13-training-cpu-py311"

TOP = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add A, B, --top, --json."""
    for name, metavar in (("before", "A"), ("after", "B")):
        parser.add_argument(name, metavar=metavar, help="an image identifier, or a Docker reference")
    parser.add_argument(
        "--top",
        type=parse_count,
        default=TOP,
        metavar="N",
        help=f"number of files to show (default: {TOP}; JSON has all)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the differences; exit code 0 whether there are any or not."""
    variants = load_variants(read_workspace(), platform=ANY_PLATFORM)
    refs = [selection.find_image(word, variants)[0] for word in (args.before, args.after)]
    engine = connect()
    with (
        show_work(" and ".join(refs), "packages and files"),
        run_beside(lambda: [facts.capture_facts(engine, ref) for ref in refs]) as captured,
        archive.save_to_scratch(engine, refs, say_progress) as path,
    ):
        before, after = captured.result()
        old, new = archive.read_archives(path, [before.digest, after.digest])
    found = image_diff.compare_images(before, after, old, new)
    if args.json:
        print_json(asdict(found))
    else:
        print_text(as_text(found, args.top), {"+": "good", "-": "bad", "~": "note"})
    return 0


def as_text(found: image_diff.ImageDiff, top: int) -> str:
    """Return a section for each kind of difference."""
    lines = [f"{found.before} -> {found.after}: {found.bytes / 1e6:+.1f} MB"]
    for title in ("packages", "environment", "labels", "files"):
        changes = getattr(found, title)
        shown = changes[:top] if title == "files" else changes
        lines += ["", f"{title}  ({len(changes)})", *map(_format_change, shown)]
        lines += [f"  and {len(changes) - len(shown)} more"] if len(shown) < len(changes) else []
    return "\n".join(lines)


def _format_change(change: image_diff.Change) -> str:
    if not change.before:
        return f"  + {change.name}  {change.after}"
    if not change.after:
        return f"  - {change.name}  {change.before}"
    return f"  ~ {change.name}  {change.before} -> {change.after}"
