"""The first two sentences of a report: the verdict with the job's own seconds, and what to change. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from dlc_runtime.compiler.choosing.candidates import EAGER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Compiling with the cache of the job before, as a share of compiling without: docs/measurements.md has 0.08 to 0.12.
WITH_CACHE = 0.1
NOTHING = "Nothing."
# How a way's outcome begins for which the budget had no room.
NOT_BEGUN = "not begun: "
TURN_OFF = "DLC_COMPILER=off"


class Headline(NamedTuple):
    verdict: str
    # What to change, as the end of a sentence that begins with "To change: ".
    advice: str


def find_headline(report: dict[str, Any]) -> Headline:
    """Return the headline of a merged report."""
    if report["compiling"] and has_ended(report):
        return headline_of_stop(report, report["compiling"][0])
    if not report["steps"]["count"] and not was_compiled(report):
        return headline_without_steps(report)
    if not (report["choosing"] or {}).get("words"):
        return headline_without_choice(report)
    if not report["choosing"]["way"]:
        return headline_of_open_choice(report)
    return headline_of_eager(report) if report["choosing"]["way"] == EAGER else headline_of_way(report)


def has_ended(report: dict[str, Any]) -> bool:
    return all(rank.get("state") == "ended" for rank in report["ranks"])


def headline_of_stop(report: dict[str, Any], entry: dict[str, Any]) -> Headline:
    steps, waited = many(report["steps"]["count"], "step"), f"after {entry['seconds']:.0f} s"
    return Headline(
        f"Stopped after {steps} while {entry['function']} was compiled, {waited} of compiling.",
        f"next time {TURN_OFF}, or DLC_COMPILE_CACHE=FOLDER, which keeps what was compiled until then.",
    )


def headline_without_steps(report: dict[str, Any]) -> Headline:
    why = next((entry for entry in report["eager"] if entry.get("remedy")), None)
    if why:
        return Headline(f"Nothing was compiled: {why['module']} stays eager: {why['reason']}.", f"{why['remedy']}.")
    return Headline(
        "Nothing was compiled: no optimizer step was seen.",
        f"if the job trains, step with an optimizer of the framework; if it does not, {TURN_OFF}.",
    )


def headline_without_choice(report: dict[str, Any]) -> Headline:
    if not was_compiled(report):
        no_graph = "no graph was made" + "".join(f" of {entry['module']}" for entry in report["modules"][:1])
        why = next(iter(report["eager"]), {"module": "", "reason": no_graph})
        reason = f"{why['module']}: {why['reason']}".removeprefix(": ")
        steps = many(report["steps"]["count"], "step")
        return Headline(
            f"Nothing was compiled in {steps}: {reason}.", f"{why.get('remedy') or f'next time {TURN_OFF}'}."
        )
    took = compile_text(report)
    if not report["steps"]["eager"]["steps"]:
        return Headline(f"All steps were compiled, none ran eager beside them: {took}.", cache_advice(report))
    return Headline(
        f"Compiled without measuring whether that is faster than eager: {took}.",
        "without DLC_COMPILER_MODE and without prepare() in the script the job measures it.",
    )


def headline_of_open_choice(report: dict[str, Any]) -> Headline:
    ended, progress = has_ended(report), report["choosing"].get("progress", "")
    steps = many(report["steps"]["count"], "step")
    when = f"the job ended first, after {steps}" if ended else f"{steps} so far"
    verdict = f"No way was chosen{'' if ended else ' yet'}: {when}: {progress}; {compile_text(report)}."
    if not ended:
        return Headline(verdict, "nothing, the job still measures.")
    return Headline(verdict, f"{off_or_cache(report)} In a longer job the choice is made.")


def headline_of_eager(report: dict[str, Any]) -> Headline:
    trials = [entry for entry in first_ways(report["ways"]) if entry["way"] != EAGER]
    measured = [entry for entry in trials if entry["low"] is not None]
    steps = many(report["steps"]["count"], "step")
    if report["choosing"].get("kept"):
        return Headline(f"Eager, as a job before has chosen: {reason_of(report)}.", f"{TURN_OFF} trains the same.")
    if trials and all(entry["outcome"].startswith(NOT_BEGUN) for entry in trials):
        verdict = f"Nothing was compiled in {steps}, the job was too short: {trials[0]['way']} {trials[0]['outcome']}."
        return Headline(verdict, "nothing, a longer job begins it; DLC_COMPILER_BUDGET=60,5% lets it begin at once.")
    if not measured:
        reasons = "; ".join(f"{entry['way']}: {entry['outcome'].removeprefix('left: ')}" for entry in trials)
        verdict = f"Eager in {steps}, because no other way could be used: {reasons}; {compile_text(report)}."
        return Headline(verdict, f"the cause, or next time {TURN_OFF}.")
    slower = [entry for entry in measured if entry["high"] < 1]
    found = "no speed-up could be shown" if len(slower) < len(measured) else f"{names(measured)} was slower"
    verdict = f"Not worth it here: {compile_text(report)}, {found} in {steps}."
    if "was given up" in reason_of(report):
        verdict = f"Eager in the end: {reason_of(report)}; {compile_text(report)}."
    return Headline(verdict, off_or_cache(report))


def headline_of_way(report: dict[str, Any]) -> Headline:
    chosen, steps = report["choosing"], report["steps"]
    since = f"{chosen['way']} from step {chosen['from_step']} on, {reason_of(report)}"
    took, even = compile_text(report), steps["break_even_step"]
    if chosen.get("kept"):
        return Headline(f"Worth it, as a job before has measured: {since}; {took}.", cache_advice(report))
    if even is None:
        return Headline(f"Faster: {since}; {took}.", cache_advice(report))
    if even > steps["count"]:
        return Headline(
            f"Faster, but this job was too short: {since}; {took}, and would have paid from step {even} on, "
            f"the job had {steps['count']}.",
            off_or_cache(report),
        )
    return Headline(
        f"Worth it: {since}; {took}, and paid from step {even} of {steps['count']} on.", cache_advice(report)
    )


def first_ways(ways: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ways that the choice is about: in TensorFlow those of the first of several functions."""
    return [entry for entry in ways if entry.get("function") == ways[0].get("function")]


def reason_of(report: dict[str, Any]) -> str:
    """Return why the way was chosen: what follows the step in the choice's words."""
    words: str = report["choosing"]["words"]
    return words.partition(" on: ")[2].partition("; tried: ")[0] or words


def names(entries: list[dict[str, Any]]) -> str:
    return " and ".join(dict.fromkeys(entry["way"] for entry in entries))


def compile_text(report: dict[str, Any]) -> str:
    value = report["compile_seconds"]
    return f"compiling took {value:.0f} s" if value >= 10 else f"compiling took {value:.1f} s"


def has_cache(report: dict[str, Any]) -> bool:
    return any((rank.get("cache") or {}).get("folder") for rank in report["ranks"])


def cache_advice(report: dict[str, Any]) -> str:
    """Say how the next job compiles in less time, if it can."""
    seconds = WITH_CACHE * report["compile_seconds"]
    if has_cache(report) or seconds < 1:
        return NOTHING.lower()
    return f"next time DLC_COMPILE_CACHE=FOLDER, compiling then takes about {seconds:.0f} s."


def off_or_cache(report: dict[str, Any]) -> str:
    """Say how the next job waits less for the compiler."""
    cache = cache_advice(report)
    return f"next time {TURN_OFF}" + ("." if cache == NOTHING.lower() else f", or {cache.removeprefix('next time ')}")


def find_paid_step(chosen: dict[str, Any], ways: list[dict[str, Any]]) -> int | None:
    """Return the step with which the chosen way has won back what choosing has cost, by figures of turns only."""
    by_name = {entry["way"]: entry for entry in first_ways(ways)}
    entry = by_name.get(chosen.get("way") or "")
    if entry is None or not entry.get("paired_seconds") or (entry["low"] or 0.0) <= 1:
        return None
    eager, own = entry["paired_seconds"]
    # A way that was compared with another way: that one's pairs lead to eager.
    for _ in ways:
        entry = by_name.get(entry["against"], {})
        if entry.get("way") in (None, EAGER) or not entry.get("paired_seconds"):
            break
        eager *= entry["paired_seconds"][0] / entry["paired_seconds"][1]
    if eager <= own:
        return None
    first = int(chosen["from_step"])
    steps: int = math.ceil(chosen["spent_seconds"] / (eager - own))
    return max(first, first - 1 + steps)


def was_compiled(report: dict[str, Any]) -> bool:
    """Tell whether something runs compiled: of inductor's each graph is known, of XLA's in TensorFlow not."""
    on_xla = any(rank.get("backend") == "xla" for rank in report["ranks"])
    return bool(report["graphs"] or (report["modules"] and on_xla))


def many(count: int, thing: str) -> str:
    return f"{count:,} {thing}" + ("" if count == 1 else "s")
