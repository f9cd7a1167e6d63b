"""`# noqa` and `# noqa: DLC101`: which findings they silence, and which of them silence nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dlc_lint.base.finding import Edit, Finding, Place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

UNUSED = "DLC001"
PATTERN = re.compile(
    r"#\s*noqa(?P<colon>\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?(?=$|[\s,;#])", re.IGNORECASE
)
CODE = re.compile(r"[A-Za-z]+[0-9]+")


class Noqa(NamedTuple):
    """One comment. Without codes it silences every finding of its line."""

    line: int
    column: int
    text: str
    codes: tuple[str, ...]

    def silences(self, code: str) -> bool:
        """Whether it says so for this code."""
        return not self.codes or code in self.codes


def read(comments: Sequence[tuple[int, int, str]]) -> list[Noqa]:
    """The directives among a script's comments."""
    found = []
    for line, column, text in comments:
        match = PATTERN.search(text)
        if match:
            codes = tuple(code.upper() for code in CODE.findall(match["codes"] or ""))
            found.append(Noqa(line, column + match.start(), match[0], codes))
    return found


def silence(findings: Sequence[Finding], directives: Sequence[Noqa]) -> list[Finding]:
    """The findings that stay."""
    return [finding for finding in findings if not any(_meets(one, finding) for one in directives)]


def unused(
    findings: Sequence[Finding], directives: Sequence[Noqa], checked: Collection[str], path: str
) -> list[Finding]:
    """A finding for each comment with codes of rules that were asked, and that silence nothing."""
    found = []
    for one in directives:
        used = {finding.code for finding in findings if _meets(one, finding)}
        idle = [code for code in one.codes if code in checked and code not in used]
        found += [_finding(one, idle, path)] if idle else []
    return found


def _meets(one: Noqa, finding: Finding) -> bool:
    return one.line in _lines(finding.place) and one.silences(finding.code)


def _lines(place: Place) -> tuple[int, int]:
    return place.line, place.end_line


def _finding(one: Noqa, idle: list[str], path: str) -> Finding:
    kept = [code for code in one.codes if code not in idle]
    place = Place(one.line, one.column, one.line, one.column + len(one.text))
    text = f"# noqa: {', '.join(kept)}" if kept else ""
    message = f"noqa: {', '.join(idle)} silences nothing here; leave it out"
    return Finding(path, place, UNUSED, message, (Edit(place, text),))
