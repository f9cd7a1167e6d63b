"""A line for each finding, and one that counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlc_lint.base.finding import Finding
    from dlc_lint.output.result import Result


def render(result: Result) -> str:
    """For people."""
    lines = [f"fixed {line(one)}" for one in result.fixed]
    lines += [line(one) for one in result.findings]
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join([*lines, _summary(result)])


def line(finding: Finding) -> str:
    """`train.py:12:5: DLC101 what is wrong; what to do`."""
    tool = "" if finding.tool == "dlc" else f" ({finding.tool})"
    return f"{finding.path}:{finding.place.line}:{finding.place.column + 1}: {finding.code} {finding.message}{tool}"


def _summary(result: Result) -> str:
    scripts = _counted(result.scripts, "script")
    if not result.findings:
        return f"nothing found in {scripts}"
    fixable = sum(1 for one in result.findings if one.edits)
    more = f"; --fix can do {fixable} of them" if fixable else ""
    return f"{_counted(len(result.findings), 'finding')} in {scripts}{more}; docs/lint/CODE.md says why"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
