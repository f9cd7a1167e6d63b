"""The one place that reads torch's private records of what was compiled. What a version lacks reads as nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from dlc_runtime.compiler.base.settings import Settings

MOST_RECORDS = 4096  # torch keeps 64
MIB = 1 << 20


class Compilation(NamedTuple):
    """One compilation of a function, forward or backward."""

    id: str
    function: str
    file: str
    line: int
    backward: bool
    seconds: float
    operations: int
    cause: str  # why it was compiled again
    failure: str
    failure_type: str
    failure_file: str
    failure_line: int


class Break(NamedTuple):
    reason: str
    stack: tuple[tuple[str, int], ...]  # outermost first


def utils() -> Any:
    import torch._dynamo.utils

    return torch._dynamo.utils


def configure(settings: Settings) -> None:
    import torch._dynamo.config as config

    config.suppress_errors = not settings.strict
    if hasattr(config, "skip_nnmodule_hook_guards"):
        config.skip_nnmodule_hook_guards = False  # else a hook added later is silently never called
    limit = getattr(utils(), "set_compilation_metrics_limit", None)
    if limit is not None:
        limit(MOST_RECORDS)


def without_small_buckets(wrappers: list[torch.nn.Module]) -> list[str]:
    """Dynamo splits a graph at DistributedDataParallel's buckets, and fails where one is below a MiB. Returns notes."""
    import torch._dynamo.config as config

    if all(getattr(wrapper, "bucket_bytes_cap", MIB) >= MIB for wrapper in wrappers):
        return []
    config.optimize_ddp = False
    return [
        "bucket_cap_mb is below 1: the graph is not split at the buckets, so gradients are exchanged after the backward"
    ]


def drain() -> list[Compilation]:
    records = getattr(utils(), "_compilation_metrics", None)
    if not records:
        return []
    found = list(records)
    utils().clear_compilation_metrics()
    return [compilation(record) for record in found]


def compilation(record: Any) -> Compilation:
    def get(name: str, default: Any) -> Any:
        value = getattr(record, name, None)
        return default if value is None else value

    seconds = get("duration_us", 0) / 1e6 or get("entire_frame_compile_time_s", 0.0)
    return Compilation(
        id=str(get("compile_id", get("frame_key", ""))),
        function=get("co_name", ""),
        file=get("co_filename", ""),
        line=get("co_firstlineno", 0),
        backward=get("is_forward", True) is False,
        seconds=float(seconds),
        operations=get("graph_op_count", 0),
        cause=get("recompile_reason", ""),
        failure=get("fail_reason", ""),
        failure_type=get("fail_type", ""),
        failure_file=get("fail_user_frame_filename", ""),
        failure_line=get("fail_user_frame_lineno", 0),
    )


def drain_breaks() -> list[Break]:
    reasons = getattr(utils(), "graph_break_reasons", None)
    if not reasons:
        return []
    found = list(reasons)
    reasons.clear()
    return [
        Break(str(item.reason), tuple((frame.filename, frame.lineno or 0) for frame in item.user_stack))
        for item in found
        if getattr(item, "graph_break", True)
    ]


def cache_counts() -> tuple[int, int]:
    """Hits and misses of the caches of compiled graphs, in this process so far."""
    counters = utils().counters
    inductor, autograd = counters["inductor"], counters["aot_autograd"]
    return (
        inductor["fxgraph_cache_hit"] + autograd["autograd_cache_hit"],
        inductor["fxgraph_cache_miss"],
    )


def is_recompile_limit(item: Compilation) -> bool:
    return "recompile limit" in item.failure or "cache_size_limit" in item.failure or "recompile_limit" in item.failure


def version() -> str:
    return str(torch.__version__)
