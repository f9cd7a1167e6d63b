"""`dlc size`: layers, packages, largest files and wasted bytes of a built image, and its budget."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import (
    add_json,
    parse_count,
    print_json,
    print_text,
    say_progress,
    show_work,
    terminal_columns,
)
from dlc.core.checkout import read_workspace
from dlc.core.platforms import ANY_PLATFORM
from dlc.engine.connection import connect
from dlc.engine.docker_client import Engine
from dlc.engine.pushed import pull_pushed
from dlc.inspection import archive, facts, size

HELP = "show what takes space in a built image; fail if it is over its budget"
EXAMPLE = "dlc size pytorch-2.13-training-cpu-py311 --compare dlc/pytorch:previous"

TOP = 15
# The column of a layer's command, and its most characters.
COMMAND_COLUMN, LONGEST_COMMAND = 15, 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, --compare, --top, --json."""
    parser.add_argument("image", metavar="ID", help="an image identifier, or a Docker reference")
    parser.add_argument("--compare", metavar="REF", help="an image to compare with: identifier or Docker reference")
    parser.add_argument(
        "--top", type=parse_count, default=TOP, metavar="N", help=f"rows of each table (default: {TOP})"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report; raise ImageError afterwards if the image is over its budget."""
    variants = load_variants(read_workspace(), platform=ANY_PLATFORM)
    ref, variant = selection.find_image(args.image, variants)
    engine = connect()
    pull_pushed(engine, [ref])
    with show_work(ref, "packages"):
        found = facts.capture_facts(engine, ref)
    with show_work(ref, "layers and files"):
        report = size.make_report(found, *archive.export_measured(engine, ref, say_progress))
    changes = _print_changes(engine, selection.find_image(args.compare, variants)[0], found) if args.compare else None
    if args.json:
        print_json(as_dict(report, changes, args.top))
    else:
        print_text(as_text(report, args.top))
        if changes is not None:
            print_text(changes_as_text(*changes, args.top))
    if variant:
        budget = variant.settings.budget
        size.require_within(budget, report.bytes, ref, report.packages, report.compressed)
        if not args.json:
            limits = f"{budget.gigabytes} GB, {budget.compressed_bytes / 1e9:g} GB compressed"
            print(f"budget    {limits}, kept ({budget.why})")
    return 0


Compared = tuple[facts.Facts, facts.Facts, tuple[size.Change, ...]]


def _print_changes(engine: Engine, ref: str, after: facts.Facts) -> Compared:
    before = facts.capture_facts(engine, ref)
    return before, after, size.find_size_changes(before, after)


def as_dict(report: size.SizeReport, compared: Compared | None, top: int) -> dict[str, object]:
    """Return a value for JSON, each table cut at `top` rows."""
    tables = {name: [asdict(row) for row in getattr(report, name)[:top]] for name in ("packages", "files", "hidden")}
    layers = [asdict(step) for step in report.layers]
    sizes = {"bytes": report.bytes, "compressed": report.compressed, "hidden_bytes": report.hidden_bytes}
    whole = {"ref": report.ref, **sizes, "layers": layers, **tables}
    if compared is None:
        return whole
    before, after, changes = compared
    change = {"ref": before.ref, "bytes": after.bytes - before.bytes, "packages": [asdict(c) for c in changes[:top]]}
    return {**whole, "compared": change}


def as_text(report: size.SizeReport, top: int) -> str:
    """Return a text for people, in megabytes (10^6 bytes)."""
    sizes = f"{report.bytes / 1e9:.3f} GB unpacked, {report.compressed / 1e9:.3f} GB compressed"
    lines = [f"{report.ref}  {sizes}", "", "layers"]
    room = max((terminal_columns() or COMMAND_COLUMN + LONGEST_COMMAND) - COMMAND_COLUMN, 1)
    lines += [f"  {_in_megabytes(step.bytes)}  {step.command[: min(room, LONGEST_COMMAND)]}" for step in report.layers]
    lines += ["", f"packages  ({len(report.packages)})"]
    lines += [f"  {_in_megabytes(share.bytes)}  {share.name}" for share in report.packages[:top]]
    lines += ["", "largest files", *(f"  {_in_megabytes(share.bytes)}  {share.name}" for share in report.files[:top])]
    lines += ["", f"stored and never seen  {_in_megabytes(report.hidden_bytes).strip()} in {len(report.hidden)} files"]
    for item in report.hidden[:top]:
        fate = f"{'deleted' if item.deleted else 'written again'} by layer {item.by + 1}"
        lines.append(f"  {_in_megabytes(item.bytes)}  /{item.path}  of layer {item.layer + 1}, {fate}")
    return "\n".join([*lines, ""])


def changes_as_text(before: facts.Facts, after: facts.Facts, changes: tuple[size.Change, ...], top: int) -> str:
    """Return what the image takes more or less than the other one."""
    difference = (after.bytes - before.bytes) / 1e6
    lines = [f"against {before.ref}  {before.bytes / 1e9:.3f} GB: {difference:+.1f} MB"]
    lines += [
        f"  {(c.after - c.before) / 1e6:+9.1f} MB  {c.name}"
        f"  {_in_megabytes(c.before).strip()} -> {_in_megabytes(c.after).strip()}"
        for c in changes[:top]
    ]
    return "\n".join([*lines, ""])


def _in_megabytes(size_in_bytes: int) -> str:
    return f"{size_in_bytes / 1e6:8.1f} MB"
