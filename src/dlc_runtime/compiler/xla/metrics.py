"""The one place that reads torch_xla's counters (torch_xla.debug.metrics)."""

from __future__ import annotations

from typing import Any, NamedTuple

COMPILED, CACHED, TIME = "UncachedCompile", "CachedCompile", "CompileTime"
FALLBACK = "aten::"
NANOSECONDS = 1e-9


class Metrics(NamedTuple):
    """Of this process so far."""

    compiled: int = 0  # graphs
    cached: int = 0  # graphs that were there already
    seconds: float = 0.0  # of compiling
    fallbacks: tuple[str, ...] = ()  # operations that XLA does not have, which run on the CPU


def read(source: Any) -> Metrics:
    """`source` is the module torch_xla.debug.metrics. What it does not have yet reads as nothing."""
    names = list(source.counter_names())
    time = source.metric_data(TIME)  # how often, nanoseconds in all, the latest ones
    return Metrics(
        compiled=count(source, COMPILED, names),
        cached=count(source, CACHED, names),
        seconds=float(time[1]) * NANOSECONDS if time else 0.0,
        fallbacks=tuple(sorted(name for name in names if name.startswith(FALLBACK))),
    )


def count(source: Any, name: str, names: list[str]) -> int:
    return int(source.counter_value(name) or 0) if name in names else 0
