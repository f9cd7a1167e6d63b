"""Merges the reports of several ranks: the same line and cause is one entry with its ranks.

A rank's own file has the same lists, without `ranks`. Of the merged one:

    ranks                        rank, host, pid, state (running or ended), backend, framework, device, cache, and
                                 steps as below with their timeline: stretches of steps, mean and longest seconds
    steps                        of each phase (eager, warm_up, after): steps, median_seconds, seconds;
                                 speed_up, first_compiled_step, break_even_step
    compile_seconds, cache_hits, cache_misses
    modules                      compiled in place: module, file, line of its forward, parameters
    eager                        trained or called, not compiled: module, reason, remedy
    graphs                       function, file, line, step, seconds, backward_seconds, operations
    recompilations, gave_up      function, file, line, step, cause, kind, remedy
    graph_breaks                 reason, file, line, stack
    fallbacks                    function, file, line, step, type, reason
    warnings, notes              sentences
"""

from __future__ import annotations

from statistics import median

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
}


def merged(records: list[dict[str, Any]]) -> dict[str, Any]:
    records = sorted(records, key=lambda record: (record.get("rank", 0), record.get("started", 0)))
    result: dict[str, Any] = {
        "version": VERSION,
        "ranks": [{key: record.get(key) for key in ONE_RANK} for record in records],
        "compile_seconds": max((record.get("compile_seconds", 0.0) for record in records), default=0.0),
        "cache_hits": sum(record.get("cache_hits", 0) for record in records),
        "cache_misses": sum(record.get("cache_misses", 0) for record in records),
        "steps": merged_steps(records),
        "warnings": texts("warnings", records),
        "notes": texts("notes", records),
    }
    for name, keys in KEYS.items():
        result[name] = merged_entries(name, keys, records)
    return result


def texts(name: str, records: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(text for record in records for text in record.get(name, [])))


ONE_RANK = ("rank", "host", "pid", "state", "backend", "framework", "device", "started", "written", "steps", "cache")


def merged_entries(name: str, keys: tuple[str, ...], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        for entry in record.get(name, []):
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


def merged_steps(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the ranks; the job breaks even when its last rank does."""
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
