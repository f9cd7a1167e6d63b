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


def apply(
    findings: Sequence[Finding], directives: Sequence[Noqa], checked: Collection[str], path: str
) -> list[Finding]:
    """The findings that stay, and one for each code of ours that silences nothing although its rule was asked."""
    used: set[tuple[int, str]] = set()
    left = []
    for finding in findings:
        by = [one for one in directives if one.line in _lines(finding.place) and one.silences(finding.code)]
        used |= {(one.line, finding.code) for one in by}
        left += [] if by else [finding]
    for one in directives:
        unused = [code for code in one.codes if code in checked and (one.line, code) not in used]
        if unused:
            left.append(_finding(one, unused, path))
    return left


def _lines(place: Place) -> tuple[int, int]:
    return place.line, place.end_line


def _finding(one: Noqa, unused: list[str], path: str) -> Finding:
    kept = [code for code in one.codes if code not in unused]
    place = Place(one.line, one.column, one.line, one.column + len(one.text))
    text = f"# noqa: {', '.join(kept)}" if kept else ""
    message = f"noqa: {', '.join(unused)} silences nothing here; leave it out"
    return Finding(path, place, UNUSED, message, (Edit(place, text),))
