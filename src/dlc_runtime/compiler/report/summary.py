"""The paragraph about the compiler at the end of a job's log."""

from __future__ import annotations

ENOUGH = 20  # steps, to say how fast they are

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def paragraph(report: dict[str, Any], path: str) -> str:
    sentences = [compiled(report), *speed(report["steps"]), *trouble(report), f"Report: {path}"]
    return " ".join(sentence for sentence in sentences if sentence)


def compiled(report: dict[str, Any]) -> str:
    names = [entry["module"] for entry in report["modules"]]
    steps = report["steps"]
    if not names and not report["graphs"]:
        return f"nothing was compiled in {many(steps['count'], 'step')}."
    what = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    on_xla = any(rank.get("backend") == "xla" for rank in report["ranks"])
    unnamed = "what ran on XLA devices" if on_xla else "what the script compiles itself"
    return (
        f"compiled {what or unnamed}: {many(len(report['graphs']), 'graph')} "
        f"in {report['compile_seconds']:.1f} s, {many(report['cache_hits'], 'cache hit')}."
    )


def speed(steps: dict[str, Any]) -> list[str]:
    eager, after = steps["eager"]["median_seconds"], steps["after"]["median_seconds"]
    if after is not None and not steps["eager"]["steps"]:  # on XLA devices nothing runs eager
        return [f"A step takes {seconds(after)}."]
    if eager is None or after is None or steps["after"]["steps"] < ENOUGH:
        return ["The run was too short to say how much faster it is."] if steps["warm_up"]["steps"] else []
    sentences = [f"A step takes {seconds(after)}, eager {seconds(eager)}: {eager / after:.2f} times as fast."]
    even = steps["break_even_step"]
    if even is None:
        return [*sentences, "Compiling does not pay for this model here: set DLC_COMPILER=off."]
    if even > steps["count"]:
        return [*sentences, f"It would have paid from step {even} on; the job had {steps['count']}."]
    return [*sentences, f"It paid from step {even} of {steps['count']} on."]


def trouble(report: dict[str, Any]) -> list[str]:
    sentences = []
    again = sum(entry["count"] for entry in report["recompilations"])
    if again:
        first = max(report["recompilations"], key=lambda entry: int(entry["count"]))
        sentences.append(
            f"{many(again, 'recompilation')}, mostly {first['function']} ({first['file']}:{first['line']}): "
            f"{first['cause']}."
        )
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


def many(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"
