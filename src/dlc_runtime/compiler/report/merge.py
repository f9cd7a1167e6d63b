"""Merges ranks' files to report.json, report.html and the log's paragraph: a line and cause is one entry with ranks.

A rank's own file has the same lists, without `ranks`. Of the merged one:

    ranks                        rank, host, pid, state (running or ended), backend, framework, device, cache, and
                                 steps as below with their timeline: stretches of steps, mean and longest seconds
    steps                        of each phase (eager, warm_up, after): steps, median_seconds, seconds;
                                 first_compiled_step; speed_up and break_even_step, null if the job stayed eager
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
    choosing                     of the first rank that chose: way and from_step (empty until it was decided), words,
                                 kept (by a job before), spent_seconds and allowed_seconds
    ways                         its candidates, in TensorFlow those of each function: function, way, steps, seconds of
                                 a step, compile_seconds, memory_bytes, against (the way that it was compared with),
                                 pairs, low, high, verdict, compared, outcome
"""

from __future__ import annotations

import json
import os
from statistics import median

from dlc_runtime.compiler.report.candidates import EAGER
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
        "ranks": [{key: record.get(key) for key in ONE_RANK} for record in records],
        "compile_seconds": max((record.get("compile_seconds", 0.0) for record in records), default=0.0),
        "cache_hits": sum(record.get("cache_hits", 0) for record in records),
        "cache_misses": sum(record.get("cache_misses", 0) for record in records),
        "steps": merge_steps(records),
        "warnings": merge_texts("warnings", records),
        "notes": merge_texts("notes", records),
    }
    chosen = next((dict(record["choosing"]) for record in records if record.get("choosing")), {})
    result["ways"] = chosen.pop("candidates", [])
    result["choosing"] = chosen
    if chosen.get("way") == EAGER:
        # Its compiled steps were trials.
        result["steps"] |= {"speed_up": None, "break_even_step": None}
    for name, keys in KEYS.items():
        result[name] = merge_entries(name, keys, records)
    return result


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
        write_text(os.path.join(folder, PAGE), render_page(result, summary(result, MERGED)))
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


# Fewest steps to say how fast they are.
ENOUGH = 20


def summary(report: dict[str, Any], path: str) -> str:
    fast = speed_sentences(report) if was_compiled(report) or (report.get("choosing") or {}).get("words") else []
    sentences = [compiled_sentence(report), *fast, *problem_sentences(report), f"Report: {path}"]
    return " ".join(sentence for sentence in sentences if sentence)


def was_compiled(report: dict[str, Any]) -> bool:
    """Tell whether something runs compiled: of inductor's each graph is known, of XLA's in TensorFlow not."""
    on_xla = any(rank.get("backend") == "xla" for rank in report["ranks"])
    return bool(report["graphs"] or (report["modules"] and on_xla))


def compiled_sentence(report: dict[str, Any]) -> str:
    names = [entry["module"] for entry in report["modules"]]
    steps = report["steps"]
    if not was_compiled(report):
        if not steps["count"]:
            return "nothing was compiled: no optimizer step was seen."
        tried = f": no graph was made of {', '.join(names[:5])}" if names else ""
        return f"nothing was compiled in {many(steps['count'], 'step')}{tried}."
    what = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    on_xla = any(rank.get("backend") == "xla" for rank in report["ranks"])
    unnamed = "what ran on XLA devices" if on_xla else "what the script compiles itself"
    return (
        f"compiled {what or unnamed}: {many(len(report['graphs']), 'graph')} "
        f"in {report['compile_seconds']:.1f} s, {many(report['cache_hits'], 'cache hit')}."
    )


def speed_sentences(report: dict[str, Any]) -> list[str]:
    """Tell a speed-up only if it was measured in turns, with its interval."""
    steps, chosen = report["steps"], report.get("choosing") or {}
    eager, after = steps["eager"]["median_seconds"], steps["after"]["median_seconds"]
    # On XLA devices nothing runs eager.
    if after is not None and not steps["eager"]["steps"]:
        return [f"A step takes {seconds(after)}."]
    if chosen.get("words"):
        return [f"By measuring in turns: {chosen['words']}.", *break_even_sentences(report, chosen["way"])]
    if eager is None or after is None or steps["after"]["steps"] < ENOUGH:
        return ["The run was too short to say how much faster it is."] if steps["warm_up"]["steps"] else []
    return [
        f"A step takes {seconds(after)}, the {steps['eager']['steps']} eager ones before took {seconds(eager)}; they "
        "were not measured in turns, so what else the host did counts in."
    ]


def break_even_sentences(report: dict[str, Any], way: str) -> list[str]:
    """Tell when a way paid that was faster for sure."""
    low = next((entry["low"] for entry in report["ways"] if entry["way"] == way), None)
    even, count = report["steps"]["break_even_step"], report["steps"]["count"]
    if even is None or low is None or low <= 1:
        return []
    if even > count:
        return [f"It would have paid from step {even} on; the job had {count}."]
    return [f"It paid from step {even} of {count} on."]


def problem_sentences(report: dict[str, Any]) -> list[str]:
    sentences = []
    if report["recompilations"]:
        sentences.append(recompilation_sentence(report["recompilations"]))
    if report.get("compiling"):
        sentences.append(compiling_sentence(report["compiling"]))
    if report["gave_up"]:
        sentences.append(f"The compiler gave up on {many(len(report['gave_up']), 'function')}.")
    if report["graph_breaks"]:
        first = report["graph_breaks"][0]
        sentences.append(
            f"{many(len(report['graph_breaks']), 'graph break')}, first at {first['file']}:{first['line']}."
        )
    if report["eager"]:
        sentences.append(
            "Eager: " + "; ".join(f"{entry['module']} ({entry['reason']})" for entry in report["eager"][:5]) + "."
        )
    if report["fallbacks"]:
        sentences.append(f"{many(len(report['fallbacks']), 'function')} did not compile.")
    return sentences


def compiling_sentence(entries: list[dict[str, Any]]) -> str:
    """Tell what a rank was compiling at its end; of one that runs, or was killed, when it wrote last."""
    for entry in entries:
        if entry["state"] == "ended":
            return f"It was stopped while {entry['function']} was compiled, after {entry['seconds']:.0f} s."
    first = entries[0]
    ranks = ", ".join(map(str, first["ranks"]))
    return f"When rank {ranks} last wrote, {first['function']} was being compiled, for {first['seconds']:.0f} s so far."


def recompilation_sentence(entries: list[dict[str, Any]]) -> str:
    """Name the kind that most of them have, by the entry that has it most often."""
    kinds: dict[str, int] = {}
    for entry in entries:
        kinds[entry.get("kind", "")] = kinds.get(entry.get("kind", ""), 0) + entry["count"]
    kind = max(kinds, key=lambda name: kinds[name])
    first = max((entry for entry in entries if entry.get("kind", "") == kind), key=lambda entry: int(entry["count"]))
    total = sum(kinds.values())
    place = f"{first['function']} ({first['file']}:{first['line']})"
    if total == 1:
        return f"1 recompilation: {place}: {first['cause']}."
    share = f"{kinds[kind]} of them" if kinds[kind] < total else "all"
    return f"{total} recompilations, {share} of the kind {kind!r}, such as {place}: {first['cause']}."


def many(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"
