"""Asks TorchFix, where it is installed, by its own command; never needed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from dlc_lint.base.finding import Finding, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOL = "TorchFix"
SECONDS = 120  # it takes two for a script
LINE = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): (?P<code>TOR\d+) (?:\[\*\] )?(?P<message>.*)")


def installed() -> bool:
    """Whether this Python has it."""
    return importlib.util.find_spec("torchfix") is not None


def run(paths: Sequence[str]) -> tuple[list[Finding], str]:
    """Its findings, and why there are none where it failed."""
    command = [sys.executable, "-m", "torchfix", "--jobs", "1", "--", *paths]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [], f"{TOOL} did not end within {SECONDS} s"
    findings = [finding for finding in map(_finding, done.stdout.splitlines()) if finding is not None]
    if done.returncode not in (0, 1) or (done.returncode and not findings):
        return [], f"{TOOL} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    return findings, ""


def _finding(line: str) -> Finding | None:
    match = LINE.fullmatch(line)
    if match is None:
        return None
    at = int(match["line"]), int(match["column"]) - 1
    return Finding(match["path"], Place(*at, *at), match["code"], match["message"], (), TOOL)
