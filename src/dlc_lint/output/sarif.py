"""SARIF 2.1.0, as code scanning services read it: a run for each tool."""

from __future__ import annotations

import json
import os
from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from dlc_lint.rules import BY_CODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc_lint.base.finding import Finding, Place
    from dlc_lint.output.result import Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
NAMES = {"dlc": "dlc lint"}


def render(result: Result) -> str:
    """One log."""
    tools = ["dlc", *sorted({one.tool for one in result.findings} - {"dlc"})]
    runs = [_run(tool, [one for one in result.findings if one.tool == tool], result) for tool in tools]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": runs}, indent=2)


def _run(tool: str, findings: Sequence[Finding], result: Result) -> dict[str, object]:
    codes = sorted({one.code for one in findings})
    notifications = [
        {"level": "error", "message": {"text": one.message}, "locations": [_location(one.path, one.line)]}
        for one in (result.errors if tool == "dlc" else ())
    ]
    return {
        "tool": {"driver": {"name": NAMES.get(tool, tool), "rules": [_rule(code) for code in codes]}},
        "invocations": [
            {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications},
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, codes.index(one.code)) for one in findings],
    }


def _rule(code: str) -> dict[str, object]:
    rule = BY_CODE.get(code)
    if rule is None:
        return {"id": code}
    return {"id": code, "shortDescription": {"text": rule.title}, "help": {"text": rule.page}}


def _result(one: Finding, index: int) -> dict[str, object]:
    uri = _uri(one.path)
    location = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": _region(one.place)}}
    found: dict[str, object] = {
        "ruleId": one.code,
        "ruleIndex": index,
        "level": "warning",
        "message": {"text": one.message},
        "locations": [location],
    }
    if one.edits:
        replacements = [
            {"deletedRegion": _region(edit.place), "insertedContent": {"text": edit.text}} for edit in one.edits
        ]
        change = {"artifactLocation": {"uri": uri}, "replacements": replacements}
        found["fixes"] = [{"artifactChanges": [change]}]
    return found


def _location(path: str, line: int) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": _uri(path)}}
    if line:
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column + 1,
        "endLine": place.end_line,
        "endColumn": place.end_column + 1,
    }


def _uri(path: str) -> str:
    prefix = "file://" if PurePath(path).is_absolute() else ""
    return prefix + quote(path.replace(os.sep, "/"), errors="surrogateescape")
