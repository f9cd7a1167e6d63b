"""`dlc doctor`: checks whether this host can build images, and says what to do if it cannot."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dlc.build.doctor import examine_host
from dlc.cli.arguments import add_json, print_json

HELP = "check whether this host can build images"
EXAMPLE = "dlc doctor --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; return 1 if a build would fail."""
    findings = examine_host()
    if args.json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            print(f"{finding.level:<5} {finding.name:<13} {finding.found}")
            if finding.remedy:
                print(f"      {'':<13} remedy: {finding.remedy}")
    return int(any(finding.level == "bad" for finding in findings))
