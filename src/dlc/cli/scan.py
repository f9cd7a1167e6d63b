"""`dlc scan`: known vulnerabilities of a built image, without those that an exception covers."""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, date, datetime
from pathlib import Path

from dlc.buildspec import selection
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import add_json, parse_path, print_json, print_text, say_progress, show_work
from dlc.core.atomic_files import write_output
from dlc.core.checkout import read_workspace
from dlc.core.platforms import ANY_PLATFORM
from dlc.engine.connection import connect
from dlc.engine.pushed import pull_pushed
from dlc.inspection import facts
from dlc.inspection.advisories import Finding, read_exceptions
from dlc.inspection.scan import Scan, as_dict, require_clean, scan_image
from dlc.inspection.vex import make_image_url, make_vex

HELP = "look for known vulnerabilities and pending security updates in a built image"
EXAMPLE = "dlc scan pytorch-2.13-training-cpu-py311"
# State of a finding -> its colour.
STATES = {"open": "bad", "expired": "bad", "excepted": "note", "unused": "note"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ID, --vex, --json."""
    parser.add_argument("image", metavar="ID", help="an image identifier, or a Docker reference")
    parser.add_argument(
        "--vex", type=parse_path, metavar="FILE", help="write what exceptions say as OpenVEX to this file"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found.

    Raises ImageError for findings that no exception covers, ProcessError if a source could not be asked.
    """
    tree = read_workspace()
    ref, _ = selection.find_image(args.image, load_variants(tree, platform=ANY_PLATFORM))
    exceptions = read_exceptions(tree)
    engine = connect()
    pull_pushed(engine, [ref])
    today = date.today()
    with show_work(ref, "packages") as say:
        captured = facts.capture_facts(engine, ref)
        found = scan_image(engine, captured, exceptions, os.environ, today, say)
    if args.vex:
        _write_vex(args.vex, captured, found)
    if args.json:
        stamps = {"digest": captured.digest, "day": today.isoformat()}
        print_json({**as_dict(found), **stamps})
    else:
        print_text(as_text(found), STATES)
    require_clean(found)
    return 0


def _write_vex(path: Path, captured: facts.Facts, found: Scan) -> None:
    """Write the document, before a finding ends the run; a scan that found nothing has none."""
    product = make_image_url(captured.ref, captured.digest)
    document = make_vex(captured, product, found.verdict, datetime.now(UTC))
    if document is None:
        say_progress(f"{path}: not written: nothing was found, so there is nothing to state")
        return
    write_output(path, json.dumps(document, indent=1) + "\n")


def as_text(found: Scan) -> str:
    """Return the sources of advisories, then every finding with its state."""
    verdict, lines = found.verdict, [found.ref]
    for answer in found.answers:
        state = f"NOT ASKED: {answer.unanswered}" if answer.unanswered else answer.coverage
        lines.append(f"  {answer.source}: {state}")
    lines += [f"  open      {_format_finding(finding)}" for finding in verdict.open]
    lines += [
        f"  expired   {_format_finding(finding)}  excepted until {e.expires} by {e.owner}"
        for finding, e in verdict.expired
    ]
    lines += [
        f"  excepted  {_format_finding(f)}  until {e.expires} by {e.owner}: {e.reason}" for f, e in verdict.excepted
    ]
    lines += [f"  unused    exception {e.advisory}: it matches no finding" for e in verdict.unused]
    return "\n".join(lines)


def _format_finding(finding: Finding) -> str:
    names = " ".join([finding.advisory, *finding.aliases])
    return f"{finding.package} {finding.version}  {names}  fixed in: {finding.fix or 'nothing yet'}"
