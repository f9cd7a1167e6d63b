"""The last lines of the log: the headline, what was compiled, and what went wrong. Pure."""

from __future__ import annotations

from dlc_runtime.compiler.report.headline import many, was_compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Fewest steps to say how fast they are.
ENOUGH = 20
FAST = "times as fast"


def summary(report: dict[str, Any], path: str) -> str:
    """Return the log's lines: the verdict, what to change, the details, and where the report is."""
    found = report["headline"]
    lines = [found["verdict"], f"To change: {found['advice']}", details(report), f"Report: {path}"]
    return "\n".join(filter(None, lines))


def details(report: dict[str, Any]) -> str:
    return " ".join([*compiled_sentences(report), *speed_sentences(report), *problem_sentences(report)])


def compiled_sentences(report: dict[str, Any]) -> list[str]:
    names = [entry["module"] for entry in report["modules"]]
    what = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    if not was_compiled(report):
        return [f"No graph was made of {what}."] if names else []
    on_xla = any(rank.get("backend") == "xla" for rank in report["ranks"])
    unnamed = "what ran on XLA devices" if on_xla else "what the script compiles itself"
    return [
        f"Compiled {what or unnamed}: {many(len(report['graphs']), 'graph')} "
        f"in {report['compile_seconds']:.1f} s, {many(report['cache_hits'], 'cache hit')}."
    ]


def speed_sentences(report: dict[str, Any]) -> list[str]:
    """Tell a speed-up only if it was measured in turns, with its interval, and no speed if nothing was compiled."""
    if not was_compiled(report) and not (report.get("choosing") or {}).get("words"):
        return []
    steps, words = report["steps"], (report.get("choosing") or {}).get("words", "")
    eager, after = steps["eager"]["median_seconds"], steps["after"]["median_seconds"]
    if words:
        return [f"By measuring in turns: {words}."] if was_compiled(report) or FAST not in words else []
    # On XLA devices nothing runs eager.
    if after is not None and not steps["eager"]["steps"]:
        return [f"A step takes {seconds(after)}."]
    if eager is None or after is None or steps["after"]["steps"] < ENOUGH:
        return ["The run was too short to say how much faster it is."] if steps["warm_up"]["steps"] else []
    return [
        f"A step takes {seconds(after)}, the {steps['eager']['steps']} eager ones before took {seconds(eager)}; they "
        "were not measured in turns, so what else the host did counts in."
    ]


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


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"
