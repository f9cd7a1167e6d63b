"""Writes each rank's report, and merges those of this host into report.json and report.html.

A file appears by renaming, so a reader and a killed writer see whole files only. A killed rank's file stays.
"""

from __future__ import annotations

import json
import os

from dlc_runtime.compiler.page.html import page
from dlc_runtime.compiler.report.merge import merged
from dlc_runtime.compiler.report.summary import paragraph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RANKS, MERGED, PAGE = "rank-", "report.json", "report.html"
TRIES = 8  # merges, while other ranks write


def write_rank(folder: str, record: dict[str, Any]) -> None:
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, f"{RANKS}{record['rank']}-{record['pid']}.json"), record)


def merge_folder(folder: str, with_page: bool = False) -> dict[str, Any]:
    """The last rank to end sees all others' files; one that wrote meanwhile is merged too, so no lock is needed."""
    for _ in range(TRIES):
        before = versions(folder)
        result = merged(read_ranks(folder))
        write(os.path.join(folder, MERGED), result)
        if versions(folder) == before:
            break
    if with_page:
        write_text(os.path.join(folder, PAGE), page(result, paragraph(result, MERGED)))
    return result


def versions(folder: str) -> list[tuple[str, int]]:
    return [(path, os.stat(path).st_mtime_ns) for path in rank_files(folder)]


def rank_files(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name.startswith(RANKS) and name.endswith(".json"))
    return [os.path.join(folder, name) for name in names]


def read_ranks(folder: str) -> list[dict[str, Any]]:
    records = []
    for path in rank_files(folder):
        try:
            with open(path, encoding="utf-8") as stream:
                record = json.load(stream)
        except (OSError, ValueError):
            continue  # half a file, or not one of ours
        if isinstance(record, dict) and isinstance(record.get("steps"), dict):
            records.append(record)
    return records


def write(path: str, value: dict[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=1, default=str))


def write_text(path: str, text: str) -> None:
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
