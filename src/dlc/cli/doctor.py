"""`dlc doctor`: checks whether this host can build images, and says what to do if it cannot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from dlc.cli.shared.arguments import add_json, print_json, print_text
from dlc.image_build.doctor import Finding, examine_host

HELP = "check whether this host can build images"
EXAMPLE = "dlc doctor --json"
# Level -> its colour.
LEVELS = {"ok": "good", "note": "note", "bad": "bad"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; return 1 if a build would fail."""
    findings = examine_host()
    if args.json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_text(as_text(findings), LEVELS)
    return int(any(finding.level == "bad" for finding in findings))


def as_text(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, and one for what to type."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<5} {finding.name:<13} {finding.found}")
        lines += [f"      {'':<13} remedy: {finding.remedy}"] if finding.remedy else []
    return "\n".join(lines)
