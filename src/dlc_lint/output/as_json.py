"""One JSON document; its keys stay what they are as long as `version` is 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dlc_lint.rules import BY_CODE

if TYPE_CHECKING:
    from dlc_lint.base.finding import Finding
    from dlc_lint.output.result import Result

VERSION = 1


def render(result: Result) -> str:
    """For programs. Lines and columns count from 1."""
    document = {
        "version": VERSION,
        "scripts": result.scripts,
        "findings": [_finding(one) for one in result.findings],
        "fixed": [_finding(one) for one in result.fixed],
        "errors": [
            {"path": one.path, "line": one.line or None, "message": one.message, "remedy": one.remedy}
            for one in result.errors
        ],
        "notes": list(result.notes),
    }
    return json.dumps(document, indent=2)


def _finding(one: Finding) -> dict[str, object]:
    rule = BY_CODE.get(one.code)
    return {
        "path": one.path,
        "line": one.place.line,
        "column": one.place.column + 1,
        "end_line": one.place.end_line,
        "end_column": one.place.end_column + 1,
        "code": one.code,
        "message": one.message,
        "fixable": bool(one.edits),
        "tool": one.tool,
        "page": rule.page if rule else None,
    }
