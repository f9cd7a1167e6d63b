"""Writes each rank's report, and merges those of this host into report.json.

A file appears by renaming, so a reader and a killed writer see whole files only. A killed rank's file stays.
"""

from __future__ import annotations

import json
import os

from dlc_runtime.compiler.report.merge import merged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RANKS, MERGED = "rank-", "report.json"
TRIES = 8  # merges, while other ranks write


def write_rank(folder: str, record: dict[str, Any]) -> None:
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, f"{RANKS}{record['rank']}-{record['pid']}.json"), record)


def merge_folder(folder: str) -> dict[str, Any]:
    """The last rank to end sees all others' files; one that wrote meanwhile is merged too, so no lock is needed."""
    for _ in range(TRIES):
        before = versions(folder)
        result = merged(read_ranks(folder))
        write(os.path.join(folder, MERGED), result)
        if versions(folder) == before:
            break
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
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1, default=str)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
