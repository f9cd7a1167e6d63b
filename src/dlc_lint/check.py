"""Runs the rules over one script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlc_lint.base.finding import Finding
from dlc_lint.rules import ALL
from dlc_lint.script import noqa, reading
from dlc_lint.script.script import Options, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc_lint.rules.rule import Rule

COMPILERS = ("", "inductor", "xla")


def check(source: str, path: str, framework: str = "", compiler: str = "") -> list[Finding]:
    """See dlc_lint.lint."""
    rules = [rule for rule in ALL if framework in ("", rule.framework)]
    findings = _findings(rules, Script(source, path, Options(compiler)))
    directives = noqa.read(reading.comments(source[1:] if source.startswith("\ufeff") else source))
    left = noqa.silence(findings, directives)
    codes = {rule.code for rule in rules}
    if noqa.unused(findings, directives, codes, path):  # perhaps it is for a job with another compiler
        for other in COMPILERS:
            findings += _findings(rules, Script(source, path, Options(other)))
        left += noqa.unused(findings, directives, codes, path)
    first: dict[tuple[int, str], Finding] = {}
    for finding in sorted(left, key=lambda one: (one.place, one.code, one.message)):
        first.setdefault((finding.place.line, finding.code), finding)  # a line says the same once
    return list(first.values())


def _findings(rules: Sequence[Rule], script: Script) -> list[Finding]:
    return [
        Finding(script.path, script.place(hit.node), rule.code, hit.message, hit.edits)
        for rule in rules
        for hit in rule.check(script)
    ]
