"""Merges ranks' files to report.json and report.html: a line and cause is one entry with ranks.

A rank's own file has the same lists, without `ranks`. Of the merged one:

    headline                     verdict and advice: the first two sentences of the page and of the log's last lines
    ranks                        rank, host, pid, state (running or ended), backend, framework, device, cache, and
                                 steps as below with their timeline: stretches of steps, mean and longest seconds
    steps                        of each phase (eager, warm_up, after): steps, median_seconds, seconds;
                                 first_compiled_step; speed_up and break_even_step, null if the job stayed eager; if
                                 the way was chosen, break_even_step is of the figures measured in turns
    compile_seconds, cache_hits, cache_misses
    modules                      compiled in place: module, file, line of its forward, parameters
    eager                        trained or called, not compiled: module, reason, remedy
    graphs                       function, file, line, step, seconds, backward_seconds, operations
    recompilations, gave_up      function, file, line, step, cause, kind, remedy
    graph_breaks                 reason, file, line, stack
    fallbacks                    function, file, line, step, type, reason
    compiling                    function, seconds: what a rank was compiling when it wrote its report; state: ended if
                                 that was at its end
    warnings, notes              sentences
    compared                     way: how it was compared with eager, if the way was not chosen by measuring
    choosing                     of the first rank that chose: way and from_step (empty until it was decided), words,
                                 progress (of a choice that is open), kept (by a job before), spent_seconds and
                                 allowed_seconds
    ways                         its candidates, in TensorFlow those of each function: function, way, steps, seconds of
                                 a step, paired_seconds (of a step of the way that it was compared with, and of its
                                 own, in the same pairs), compile_seconds, memory_bytes, against (that way), pairs, low,
                                 high, verdict, compared (how its results were compared with eager's), outcome
"""

from __future__ import annotations

import copy
import json
import os
from statistics import median

from dlc_runtime.compiler.choosing.candidates import EAGER
from dlc_runtime.compiler.report.headline import find_headline, find_paid_step, was_compiled
from dlc_runtime.compiler.report.html_page import render_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
# What makes two entries the same; all others keep the first rank's value, counts are added, seconds the largest.
KEYS = {
    "modules": ("module", "file", "line"),
    "eager": ("module", "reason"),
    "graphs": ("function", "file", "line", "id"),
    "recompilations": ("function", "file", "line", "cause"),
    "graph_breaks": ("file", "line", "reason"),
    "fallbacks": ("function", "file", "line", "reason"),
    "gave_up": ("function", "file", "line", "cause"),
    "compiling": ("function", "state"),
}


def merge_records(records: list[dict[str, Any]]) -> dict[str, Any]:
    records = sorted(records, key=lambda record: (record.get("rank", 0), record.get("started", 0)))
    result: dict[str, Any] = {
        "version": VERSION,
        "ranks": [{key: copy.copy(record.get(key)) for key in ONE_RANK} for record in records],
        "compile_seconds": max((record.get("compile_seconds", 0.0) for record in records), default=0.0),
        "cache_hits": sum(record.get("cache_hits", 0) for record in records),
        "cache_misses": sum(record.get("cache_misses", 0) for record in records),
        "steps": merge_steps(records),
        "warnings": merge_texts("warnings", records),
        "notes": merge_texts("notes", records),
        "compared": next((record["compared"] for record in records if record.get("compared")), {}),
    }
    chosen = next((dict(record["choosing"]) for record in records if record.get("choosing")), {})
    result["ways"] = copy.deepcopy(chosen.pop("candidates", []))
    result["choosing"] = chosen
    if chosen.get("way"):
        result["steps"]["break_even_step"] = find_paid_step(chosen, result["ways"])
    if chosen.get("way") == EAGER:
        # Its compiled steps were trials.
        result["steps"]["speed_up"] = None
    for name, keys in KEYS.items():
        result[name] = merge_entries(name, keys, records)
    if not was_compiled(result):
        forget_speed(result)
    result["headline"] = find_headline(result)._asdict()
    return result


def forget_speed(report: dict[str, Any]) -> None:
    """Leave out figures of compiled steps and speed-ups: no step was compiled."""
    report["steps"] |= {"speed_up": None, "break_even_step": None}
    for steps in (report["steps"], *(rank["steps"] for rank in report["ranks"])):
        steps["after"] = {**steps["after"], "median_seconds": None}
    for entry in report["ways"]:
        entry.update(low=None, high=None, verdict="", paired_seconds=None)


def merge_texts(name: str, records: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(text for record in records for text in record.get(name, [])))


ONE_RANK = ("rank", "host", "pid", "state", "backend", "framework", "device", "started", "written", "steps", "cache")


def merge_entries(name: str, keys: tuple[str, ...], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        for entry in record.get(name, []):
            if name == "compiling":
                entry = {**entry, "state": record.get("state")}
            key = tuple(entry.get(part) for part in keys)
            times = entry.get("count", 1)
            if key not in found:
                found[key] = {**entry, "count": times, "ranks": [record.get("rank", 0)]}
                continue
            held = found[key]
            held["count"] += times
            if record.get("rank", 0) not in held["ranks"]:
                held["ranks"].append(record.get("rank", 0))
            if "seconds" in entry:
                held["seconds"] = max(held["seconds"], entry["seconds"])
    return list(found.values())


def merge_steps(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Take medians over the ranks; the job breaks even when its last rank does."""
    result: dict[str, Any] = {"count": max((record["steps"]["count"] for record in records), default=0)}
    for phase in ("eager", "warm_up", "after"):
        values = [record["steps"][phase]["median_seconds"] for record in records]
        known = [value for value in values if value is not None]
        result[phase] = {
            "steps": max((record["steps"][phase]["steps"] for record in records), default=0),
            "median_seconds": median(known) if known else None,
            "seconds": max((record["steps"][phase]["seconds"] for record in records), default=0.0),
        }
    speed_ups = [record["steps"]["speed_up"] for record in records if record["steps"]["speed_up"]]
    evens = [record["steps"]["break_even_step"] for record in records]
    firsts = [record["steps"]["first_compiled_step"] for record in records]
    result["first_compiled_step"] = min((step for step in firsts if step), default=None)
    result["speed_up"] = median(speed_ups) if speed_ups else None
    result["break_even_step"] = max(evens) if evens and None not in evens else None
    return result


RANKS, MERGED, PAGE = "rank-", "report.json", "report.html"
TRIES = 8  # merges, while other ranks write


def write_rank(folder: str, record: dict[str, Any]) -> None:
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, f"{RANKS}{record['rank']}-{record['pid']}.json"), record)


def merge_folder(folder: str, with_page: bool = False) -> dict[str, Any]:
    """Merge the ranks' files. The last rank sees all others, and what changed meanwhile is merged too: no lock."""
    for _ in range(TRIES):
        before = file_versions(folder)
        result = merge_records(read_ranks(folder))
        write_json(os.path.join(folder, MERGED), result)
        if file_versions(folder) == before:
            break
    if with_page:
        write_text(os.path.join(folder, PAGE), render_page(result))
    return result


def file_versions(folder: str) -> list[tuple[str, int]]:
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
            # Half a file, or not one of ours.
            continue
        if isinstance(record, dict) and isinstance(record.get("steps"), dict):
            records.append(record)
    return records


def write_json(path: str, value: dict[str, Any]) -> None:
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
