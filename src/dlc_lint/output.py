"""How findings are shown: a line for each, one JSON document, or SARIF 2.1.0 for code scanning services."""

from __future__ import annotations

import json
import os
from pathlib import PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from dlc_lint.rules import BY_CODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlc_lint.findings import Finding, Place, Result

VERSION = 1
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
NAMES = {"dlc": "dlc lint"}


def render_text(result: Result) -> str:
    """Return a line for each finding, for people."""
    lines = [f"fixed {line(one)}" for one in result.fixed]
    lines += [line(one) for one in result.findings]
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join([*lines, _summary(result)])


def line(finding: Finding) -> str:
    """Return `train.py:12:5: DLC101 what is wrong; what to do`."""
    tool = "" if finding.tool == "dlc" else f" ({finding.tool})"
    return f"{finding.path}:{finding.place.line}:{finding.place.column + 1}: {finding.code} {finding.message}{tool}"


def _summary(result: Result) -> str:
    scripts = _counted(result.scripts, "script")
    if not result.findings:
        return f"nothing found in {scripts}"
    fixable = sum(1 for one in result.findings if one.edits)
    more = f"; --fix can do {fixable} of them" if fixable else ""
    return f"{_counted(len(result.findings), 'finding')} in {scripts}{more}; dlc help CODE says why"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def render_json(result: Result) -> str:
    """Return a document for programs. Lines and columns count from 1."""
    document = {
        "version": VERSION,
        "scripts": result.scripts,
        "findings": [_json_finding(one) for one in result.findings],
        "fixed": [_json_finding(one) for one in result.fixed],
        "errors": [
            {"path": one.path, "line": one.line or None, "message": one.message, "remedy": one.remedy}
            for one in result.errors
        ],
        "notes": list(result.notes),
    }
    return json.dumps(document, indent=2)


def _json_finding(one: Finding) -> dict[str, object]:
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


def render_sarif(result: Result) -> str:
    """Return one log, with a run for each tool."""
    tools = ["dlc", *sorted({one.tool for one in result.findings} - {"dlc"})]
    runs = [_sarif_run(tool, [one for one in result.findings if one.tool == tool], result) for tool in tools]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": runs}, indent=2)


def _sarif_run(tool: str, findings: Sequence[Finding], result: Result) -> dict[str, object]:
    codes = sorted({one.code for one in findings})
    notifications = [
        {"level": "error", "message": {"text": one.message}, "locations": [_location(one.path, one.line)]}
        for one in (result.errors if tool == "dlc" else ())
    ]
    return {
        "tool": {"driver": {"name": NAMES.get(tool, tool), "rules": [_sarif_rule(code) for code in codes]}},
        "invocations": [
            {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications},
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(one, codes.index(one.code)) for one in findings],
    }


def _sarif_rule(code: str) -> dict[str, object]:
    rule = BY_CODE.get(code)
    if rule is None:
        return {"id": code}
    return {"id": code, "shortDescription": {"text": rule.title}, "help": {"text": rule.page}}


def _sarif_result(one: Finding, index: int) -> dict[str, object]:
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
