"""Runs the rules over one script, and applies the safe edits of its findings."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dlc_lint.findings import Finding
from dlc_lint.rules import ALL
from dlc_lint.script import parsing
from dlc_lint.script.parsing import encoding_of, parse
from dlc_lint.script.script import Options, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc_lint.findings import Edit, Finding
    from dlc_lint.rules.rule import Rule

COMPILERS = ("", "inductor", "xla")
# An edit may make room for another; none makes a new finding.
MOST_ROUNDS = 10


def check(source: str, path: str, framework: str = "", compiler: str = "") -> list[Finding]:
    """See dlc_lint.lint."""
    rules = [rule for rule in ALL if framework in ("", rule.framework)]
    findings = _findings(rules, Script(source, path, Options(compiler)))
    directives = parsing.read_noqa(parsing.comments(source[1:] if source.startswith("\ufeff") else source))
    left = parsing.silence(findings, directives)
    codes = {rule.code for rule in rules}
    # A comment may be for a job with another compiler.
    if parsing.unused_noqa(findings, directives, codes, path):
        for other in COMPILERS:
            findings += _findings(rules, Script(source, path, Options(other)))
        left += parsing.unused_noqa(findings, directives, codes, path)
    first: dict[tuple[int, str], Finding] = {}
    for finding in sorted(left, key=lambda one: (one.place, one.code, one.message)):
        # A line says the same once.
        first.setdefault((finding.place.line, finding.code), finding)
    return list(first.values())


def _findings(rules: Sequence[Rule], script: Script) -> list[Finding]:
    return [
        Finding(script.path, script.place(hit.node), rule.code, hit.message, hit.edits)
        for rule in rules
        for hit in rule.check(script)
    ]


class Fixed(NamedTuple):
    """The new text, what was fixed, what is left."""

    text: str
    done: tuple[Finding, ...]
    left: tuple[Finding, ...]


def fix(source: str, path: str, framework: str = "", compiler: str = "") -> Fixed:
    """Fix what can be fixed safely; without such a finding the text stays."""
    mark = "\ufeff" if source.startswith("\ufeff") else ""
    text, done = source[len(mark) :], []
    for _ in range(MOST_ROUNDS):
        left = check(text, path, framework, compiler)
        chosen = _apart([finding for finding in left if finding.edits])
        if not chosen:
            break
        text = apply(text, [edit for finding in chosen for edit in finding.edits])
        # An edit that breaks the script is a bug, and is not written.
        parse(text, path)
        done += chosen
    return Fixed(mark + text, tuple(done), tuple(check(text, path, framework, compiler)))


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of which no edit overlaps an earlier finding's."""
    chosen: list[Finding] = []
    end = (0, 0)
    for finding in sorted(findings, key=lambda one: min(edit.place for edit in one.edits)):
        start = min(edit.place[:2] for edit in finding.edits)
        if start >= end:
            chosen.append(finding)
            end = max(edit.place[2:] for edit in finding.edits)
    return chosen


def apply(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with every edit done."""
    starts = [0]
    for line in io.StringIO(text, newline=""):
        starts.append(starts[-1] + len(line))
    last = len(starts) - 1

    def offset(line: int, column: int) -> int:
        return starts[min(line - 1, last)] + column

    for edit in sorted(edits, key=lambda one: one.place, reverse=True):
        place = edit.place
        begin, end = offset(place.line, place.column), offset(place.end_line, place.end_column)
        text = text[:begin] + edit.text + text[end:]
        if not edit.text:
            text = _without_blanks(text, begin)
    return text


def _without_blanks(text: str, at: int) -> str:
    """Remove blanks before the end of a line, where a comment stood."""
    if text[at : at + 1] not in ("\n", "\r", ""):
        return text
    kept = text[:at].rstrip(" \t")
    return kept + text[at:]


def write(path: str, text: str) -> None:
    """Replace a script at once, with its rights and in the encoding that it states; a link stays a link."""
    target = Path(os.path.realpath(path))
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(text.encode(encoding_of(text.encode("utf-8"))))
        shutil.copymode(target, part)
        part.replace(target)
    finally:
        if part.exists():
            part.unlink()
