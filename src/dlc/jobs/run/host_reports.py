"""Merges what the compiler reported on each host of a job: one page and one file for all ranks.

On a host the ranks' files of that host alone are merged. Here the files of all hosts come together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from dlc_runtime.compiler.report.html_page import render_page
from dlc_runtime.compiler.report.merge import (
    MERGED,
    PAGE,
    RANKS,
    merge_records,
    read_ranks,
    summary,
    write_json,
    write_text,
)

# The name of a rank's file, of the compiler's report and of `dlc profile`.
RANK_FILES = f"{RANKS}*.json"
Record = dict[str, Any]


def merge_host_reports(outputs: Mapping[str, Path], target: Path) -> list[str]:
    """Write one report for each folder in which hosts have the compiler's; return a line for each.

    `outputs` are the hosts' folders. What a host merged of its own ranks is removed: all of it is in the new report.
    Files of ranks that have one name on several hosts get names with their host.
    """
    lines = []
    for place in sorted({place for output in outputs.values() for place in _find_places(output)}):
        folders = {host: output / place for host, output in outputs.items() if (output / place).is_dir()}
        lines += _merge_place(folders, target / place)
        _name_by_host(folders)
    return lines


def _find_places(output: Path) -> Iterator[Path]:
    """Return the folders, from `output`, that hold ranks' files. Links are not followed."""
    for path in output.rglob(RANK_FILES):
        if path.is_file() and not path.is_symlink():
            yield path.parent.relative_to(output)


def _merge_place(folders: Mapping[str, Path], target: Path) -> list[str]:
    """Merge one folder of several hosts. Files that are no report of the compiler are left as they are."""
    try:
        found = {host: records for host, folder in folders.items() if (records := _read_records(folder))}
        if len(found) < 2:
            return []
        report = merge_records(_number_ranks(found))
        report["notes"] += _note_own_trainings(found)
        target.mkdir(parents=True, exist_ok=True)
        write_json(str(target / MERGED), report)
        write_text(str(target / PAGE), render_page(report, summary(report, MERGED)))
    # A script may write what it wants to these files, and a disk may be full: it is no error of the job.
    except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return [f"the compiler's reports of the hosts were not merged: {error}"]
    for host in found:
        for name in (MERGED, PAGE):
            (folders[host] / name).unlink(missing_ok=True)
    lacking = [host for host in folders if host not in found]
    return [
        f"the compiler's report of {len(found)} hosts: {target / PAGE}",
        *(f"it lacks {host}: {folders[host]} has no report that can be read" for host in lacking),
    ]


def _read_records(folder: Path) -> list[Record]:
    """Return the compiler's records of a host; none if one of the files is a link, which may lead anywhere."""
    if any(path.is_symlink() for path in folder.iterdir()):
        return []
    return [record for record in read_ranks(str(folder)) if "compile_seconds" in record]


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


def _note_own_trainings(found: Mapping[str, list[Record]]) -> list[str]:
    if not _trained_each_for_itself(found):
        return []
    return ["Each host trained for itself. The ranks are numbered over all hosts here."]


def _name_by_host(folders: Mapping[str, Path]) -> None:
    """Rename ranks' files whose name an earlier host has too: rank-0.json of algo-2 becomes rank-0-algo-2.json."""
    taken: set[str] = set()
    for host, folder in folders.items():
        for path in sorted(folder.glob(RANK_FILES)):
            named = path.with_name(f"{path.stem}-{host}.json")
            if path.name in taken and not named.exists():
                path.rename(named)
            taken.add(path.name)
