"""Runs the rules over one script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlc_lint.base.finding import Finding
from dlc_lint.rules import ALL
from dlc_lint.script import noqa, reading
from dlc_lint.script.script import Options, Script

if TYPE_CHECKING:
    from dlc_lint.rules.rule import Rule


def check(source: str, path: str, framework: str = "", compiler: str = "") -> list[Finding]:
    """See dlc_lint.lint."""
    script = Script(source, path, Options(compiler))
    rules = [rule for rule in ALL if framework in ("", rule.framework)]
    findings = [finding for rule in rules for finding in _findings(rule, script)]
    directives = noqa.read(reading.comments(script.text))
    left = noqa.apply(findings, directives, {rule.code for rule in rules}, path)
    first: dict[tuple[int, str], Finding] = {}
    for finding in sorted(left, key=lambda one: (one.place, one.code, one.message)):
        first.setdefault((finding.place.line, finding.code), finding)  # a line says the same once
    return list(first.values())


def _findings(rule: Rule, script: Script) -> list[Finding]:
    hits = rule.check(script)
    return [Finding(script.path, script.place(hit.node), rule.code, hit.message, hit.edits) for hit in hits]
