"""Merges what the compiler reported on each host of a job: one page and one file for all ranks.

On a host the ranks' files of that host alone are merged. Here the files of all hosts come together, when the results
have been collected: a report that fails costs nobody a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any

from dlc.places.local.job_folder import RANK_FILES, ResultFile

Record = dict[str, Any]


def merge_host_reports(results: Sequence[ResultFile], output: Path) -> list[str]:
    """Write one report for each folder below `output` in which several hosts have the compiler's; return what to say.

    What a host merged of its own ranks is removed: all of it is in the new report. What fails is a line that names the
    hosts.
    """
    places: dict[Path, dict[str, list[Path]]] = {}
    for file in results:
        if file.path.is_relative_to(output) and fnmatchcase(file.path.name, RANK_FILES):
            places.setdefault(file.path.parent, {}).setdefault(file.host, []).append(file.path)
    lines = []
    for folder, ranks in sorted(places.items()):
        # A disk may be full, and what a file holds is the script's affair: the results are there all the same.
        try:
            lines += _merge_place(folder, ranks, results)
        except Exception as error:
            lines.append(f"warning: {folder}: the reports of {', '.join(ranks)} were not merged: {_describe(error)}")
    return lines


def _merge_place(folder: Path, ranks: Mapping[str, Sequence[Path]], results: Sequence[ResultFile]) -> list[str]:
    """Merge one folder of several hosts. Files that are no report of the compiler are left as they are."""
    found: dict[str, list[Record]] = {}
    lines = []
    for host, path in ((host, path) for host, paths in ranks.items() for path in paths):
        try:
            record = _read_record(path)
        except Exception as error:
            why = _describe(error)
            lines.append(f"warning: {path}: expected the compiler's report of a rank of {host}, found {why}")
        else:
            found.setdefault(host, []).append(record)
    if not found:
        # Other programs call their files so too.
        return []
    return lines if len(found) < 2 else [_write_report(folder, found, results), *lines]


def _write_report(folder: Path, found: Mapping[str, list[Record]], results: Sequence[ResultFile]) -> str:
    # What is not there when a report is written must not be in the way of results.
    from dlc_runtime.compiler.report.html_page import render_page
    from dlc_runtime.compiler.report.merge import MERGED, PAGE, merge_records, write_json, write_text

    report = merge_records(_number_ranks(found))
    if _trained_each_for_itself(found):
        report["notes"].append("Each host trained for itself. The ranks are numbered over all hosts here.")
    page = render_page(report)
    merged = [file for file in results if file.target in (folder / MERGED, folder / PAGE)]
    for file in merged:
        if file.host not in found and not file.stays:
            file.path.rename(file.path.with_stem(f"{file.path.stem}-{file.host}"))
    write_json(str(folder / MERGED), report)
    write_text(str(folder / PAGE), page)
    for file in merged:
        if file.host in found and file.stays:
            file.path.unlink()
    return f"the compiler's report of {len(found)} hosts: {folder / PAGE}"


def _read_record(path: Path) -> Record:
    """Read a rank's report. Raises ValueError for other files, and for a link, which may lead anywhere."""
    if path.is_symlink():
        raise ValueError("it is a link")
    record = json.loads(path.read_text(encoding="utf-8"))
    if not (isinstance(record, dict) and isinstance(record.get("steps"), dict) and "compile_seconds" in record):
        raise ValueError("it has neither steps nor seconds of compiling")
    return record


def _describe(error: Exception) -> str:
    """Return an error's kind and words: the words of a KeyError are the key alone."""
    return f"{type(error).__name__}: {error}"


def _number_ranks(found: Mapping[str, list[Record]]) -> list[Record]:
    """Return the records of all hosts. Hosts that trained each for itself get numbers one after the other."""
    records = [{**record, "host": host} for host, each in found.items() for record in each]
    if not _trained_each_for_itself(found):
        return records
    return [{**record, "rank": number} for number, record in enumerate(records)]


def _trained_each_for_itself(found: Mapping[str, list[Record]]) -> bool:
    """Tell whether two hosts had a rank of one number at the same time: in a job that starts again a rank may move."""
    placed = [(host, record) for host, each in found.items() for record in each]
    return any(
        host != other and one.get("rank", 0) == two.get("rank", 0) and _ran_together(one, two)
        for (host, one), (other, two) in combinations(placed, 2)
    )


def _ran_together(one: Record, two: Record) -> bool:
    return bool(one["started"] <= two["written"] and two["started"] <= one["written"])
