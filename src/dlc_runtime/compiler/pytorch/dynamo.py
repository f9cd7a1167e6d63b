"""The one place that reads torch's private records of what was compiled; puts them into the report."""

from __future__ import annotations

import inspect
import logging
import os
import re
from typing import Any, Callable, NamedTuple

import torch

from dlc_runtime.compiler.pytorch import torch_facts
from dlc_runtime.compiler.report.record import RecompileCause, Record, cause_of, lines_of
from dlc_runtime.compiler.settings import INDUCTOR, Settings
from dlc_runtime.compiler.source_locations import is_user_code, location_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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


class GraphBreak(NamedTuple):
    reason: str
    stack: tuple[tuple[str, int], ...]  # outermost first


def dynamo_utils() -> Any:
    import torch._dynamo.utils

    return torch._dynamo.utils


def configure(settings: Settings, wrappers: Iterable[torch.nn.Module] = ()) -> list[str]:
    """Set what dlc's compiling needs. Return notes about `wrappers`, DistributedDataParallel's."""
    import torch._dynamo.config as config

    config.suppress_errors = not settings.strict
    if hasattr(config, "skip_nnmodule_hook_guards"):
        # Else a hook added later is silently never called.
        config.skip_nnmodule_hook_guards = False
    import torch._functorch.config as functorch

    if hasattr(functorch, "donated_buffer"):
        # Else a backward with retain_graph=True fails, which runs eager.
        functorch.donated_buffer = False
    # Else a graph is cut in two at what the eager steps have said once.
    if hasattr(config, "ignore_logger_methods"):
        config.ignore_logger_methods = {*config.ignore_logger_methods, *log_once_methods()}
    limit = getattr(dynamo_utils(), "set_compilation_metrics_limit", None)
    if limit is not None:
        limit(MOST_RECORDS)
    import torch._inductor.config as inductor

    # Eager's random numbers: with the same seed a job has the same losses, and both can be compared exactly.
    inductor.fallback_random = True
    if settings.backend == INDUCTOR:
        torch_facts.skip_needless_work()
    return allow_small_buckets(wrappers)


def log_once_methods() -> set[Any]:
    """Return methods with which transformers' loggers say a thing the first time only."""
    return {getattr(logging.Logger, name, None) for name in ("warning_once", "info_once")} - {None}


def allow_small_buckets(wrappers: Iterable[torch.nn.Module]) -> list[str]:
    """Stop Dynamo from splitting graphs at DistributedDataParallel's buckets if one is below a MiB. Return notes."""
    import torch._dynamo.config as config

    if all(getattr(wrapper, "bucket_bytes_cap", MIB) >= MIB for wrapper in wrappers):
        return []
    config.optimize_ddp = False
    return [
        "bucket_cap_mb is below 1: the graph is not split at the buckets, so gradients are exchanged after the backward"
    ]


def drain_compilations() -> list[Compilation]:
    records = getattr(dynamo_utils(), "_compilation_metrics", None)
    if not records:
        return []
    found = list(records)
    dynamo_utils().clear_compilation_metrics()
    return [read_compilation(record) for record in found]


def count_records() -> int:
    """Return how many records wait to be drained."""
    return len(getattr(dynamo_utils(), "_compilation_metrics", None) or ())


def forget_failures(known: int) -> None:
    """Drop what failed after the first `known` records."""
    records = getattr(dynamo_utils(), "_compilation_metrics", None)
    if not records:
        return
    latest = [records.pop() for _ in range(len(records) - known)]
    records.extend(record for record in reversed(latest) if not read_compilation(record).failure)


def is_dynamo_error(fault: BaseException) -> bool:
    """Return whether Dynamo raised it, not the script."""
    import torch._dynamo.exc as exc

    return isinstance(fault, exc.TorchDynamoException)


def listen_to_compiling(begin: Callable[..., None], end: Callable[..., None]) -> None:
    """Call `begin` and `end` around everything that is compiled, in the thread that compiles."""
    try:
        from torch._dynamo.callback import callback_handler
    except ImportError:  # torch 2.3
        return
    callback_handler.register_start_callback(begin)
    callback_handler.register_end_callback(end)


def read_compilation(record: Any) -> Compilation:
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


def drain_breaks() -> list[GraphBreak]:
    reasons = getattr(dynamo_utils(), "graph_break_reasons", None)
    if not reasons:
        return []
    found = list(reasons)
    reasons.clear()
    return [
        GraphBreak(str(item.reason), tuple((frame.filename, frame.lineno or 0) for frame in item.user_stack))
        for item in found
        if getattr(item, "graph_break", True)
    ]


def cache_counts() -> tuple[int, int]:
    """Return hits and misses of the caches of compiled graphs, in this process so far."""
    counters = dynamo_utils().counters
    inductor, autograd = counters["inductor"], counters["aot_autograd"]
    return (
        inductor["fxgraph_cache_hit"] + autograd["autograd_cache_hit"],
        inductor["fxgraph_cache_miss"],
    )


def is_recompile_limit(item: Compilation) -> bool:
    return "recompile limit" in item.failure or "cache_size_limit" in item.failure or "recompile_limit" in item.failure


EXPLANATION = "Explanation: "
# As in_place.py words the reason of a hook that is not compiled.
HOOK_OUTSIDE = re.compile(r"\(reason: hook (?P<name>.+) \((?P<file>.+):(?P<line>\d+)\)\)")
RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")


class PyTorchRecord(Record):
    """A record by Dynamo's compilations."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, tuple[str, int]] = {}
        # What Dynamo's numbers of functions stand for.
        self._frames: dict[str, tuple[str, str, int]] = {}
        self._parameters: dict[str, list[str]] = {}
        # Type and line, or reason -> functions.
        self._failures: dict[tuple[str, str, int], set[str]] = {}

    def add_module(self, module: torch.nn.Module, caller: tuple[str, int] = ("", 0)) -> str:
        """Return the name of the module's compiled function. `caller`: the script's line that calls the module."""
        base = type(module).__name__
        name, number = base, 1
        while name in self.places:
            number += 1
            name = f"{base}_{number}"
        place = location_of(type(module).forward)
        self.places[name] = caller if caller[0] and not is_user_code(place[0]) else place
        self._parameters[name] = parameter_names(type(module).forward)
        file, line = self.places[name]
        parameters = sum(parameter.numel() for parameter in module.parameters())
        self.modules.append({"module": name, "file": file, "line": line, "parameters": parameters})
        return name

    def add_compilation(self, item: Compilation, step: int) -> str:
        """Return a warning, or ""."""
        self.compile_seconds += item.seconds
        graph = self.graphs.get(item.id)
        if graph is not None and not item.function:  # the backward of a graph
            graph["backward_seconds"] += item.seconds
            return ""
        where = {**self._place(item), "step": step}
        if item.failure:
            return self._add_failure(item, where)
        if item.operations or item.cause:
            self.add_graph(item.id, where, item.seconds, item.operations)
        return self.add_recompilation(where, item.seconds, self._cause(item, where)) if item.cause else ""

    def _add_failure(self, item: Compilation, where: dict[str, Any]) -> str:
        if is_recompile_limit(item):
            return self.add_gave_up("Dynamo", where, self._cause(item, where))
        failed_at, reason = (item.failure_file, item.failure_line), first_reason(item.failure)
        failed = self._failures.setdefault((item.failure_type, *(failed_at if failed_at[0] else (reason, 0))), set())
        name = module_name_of(where["function"])
        if failed and (name not in self.places or name in failed):
            # Dynamo tries each part of what failed as a whole.
            return ""
        failed.add(name)
        return self.add_fallback(where, item.failure_type, reason, failed_at)

    def _place(self, item: Compilation) -> dict[str, Any]:
        """Find the function by Dynamo's number: a record of giving up holds nothing else."""
        frame = item.id.partition("/")[0]
        if item.function:
            # The function goes on after a graph break.
            resumed = RESUMED.fullmatch(item.function)
            name, line = (resumed[1], int(resumed[2])) if resumed else (item.function, item.line)
            self._frames[frame] = (name, *self.places.get(module_name_of(name), (item.file, line)))
        function, file, line = self._frames.get(frame, ("", "", 0))
        return {"function": function, "file": file, "line": line}

    def _cause(self, item: Compilation, where: dict[str, Any]) -> RecompileCause:
        """Return the cause with the user's line, and the names of the user's parameters."""
        cause = cause_of(item.cause)
        names = dict(enumerate(self._parameters.get(module_name_of(where["function"]), ())))
        if module_name_of(where["function"]) not in self.places:
            # No user can change a library's function.
            remedy = cause.remedy if is_user_code(where["file"]) else ""
            return cause._replace(text=cause.text + self._line(item.cause), remedy=remedy)
        text = re.sub(r"\barguments\[(\d+)\]", lambda found: names.get(int(found[1]), found[0]), cause.text)
        text = re.sub(r"\bnamed\['(\w+)'\]", r"\1", text)
        return cause._replace(text=re.sub(r"\bmodule\b(?=[.\[ ])", "self", text) + self._line(item.cause))

    def _line(self, reason: str) -> str:
        """Return " (train.py:7)": the innermost line of the user's that a cause comes from, "" if none is named."""
        for line in reversed(lines_of(reason)):
            file, _, number = line.rpartition(":")
            known = [path for path, _ in self.places.values() if path.endswith(f"/{file}")]  # Dynamo cuts folders off
            if os.path.isabs(file) and is_user_code(file):
                return f" ({line})"
            if known:
                return f" ({known[0]}:{number})"
        return ""

    def add_graph_break(self, item: GraphBreak) -> None:
        """Add it at the script's line: that of a hook, else the nearest one, else the line that calls the module."""
        hook = HOOK_OUTSIDE.search(item.reason)
        if hook:
            self.add_break(f"hook {hook['name']} runs outside the graph", ((hook["file"], int(hook["line"])),))
            return
        stack, reason = item.stack, first_reason(item.reason)
        callers = set(self.places.values())
        if stack and not any(is_user_code(file) for file, _ in stack) and len(callers) == 1:
            reason = f"{reason} ({stack[-1][0]}:{stack[-1][1]})"
            stack = (*callers, *stack)
        self.add_break(reason, stack)

    def why_no_graph(self, hooks: list[str]) -> str:
        """Return the reason why nothing was compiled. `hooks`: the script's that Dynamo does not take, in words."""
        if hooks:
            return f"Dynamo compiles no call that runs {', '.join(hooks)}"
        if self.fallbacks:
            found = self.fallbacks[-1]
            place = f" ({found['failed_file']}:{found['failed_line']})" if "failed_file" in found else ""
            return f"{found['type']}: {found['reason']}{place}"
        stopped = list(self.breaks.values())[-1:]
        return "".join(f"{found['reason']} ({found['file']}:{found['line']})" for found in stopped) or "Dynamo skips it"

    def cache_counts(self) -> tuple[int, int]:
        return cache_counts() if self.graphs or self.fallbacks else (0, 0)


def parameter_names(forward: Any) -> list[str]:
    """Return names without `self`, up to a parameter that takes any number."""
    names = []
    for parameter in list(inspect.signature(forward).parameters.values())[1:]:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        names.append(parameter.name)
    return names


def module_name_of(function: str) -> str:
    """Return the name of the module that a function of ours was compiled for, such as Net of Net.regional."""
    return function.partition(".")[0]


def first_reason(failure: str) -> str:
    """Return its first line, more if that announces the next, and what is explained below."""
    first, _, rest = failure.strip().partition("\n")
    while first.endswith(":") and rest.strip():
        following, _, rest = rest.strip().partition("\n")
        first = f"{first} {following}"
    for line in rest.splitlines():
        if line.strip().startswith(EXPLANATION) or " error: " in line:
            return f"{first}: {line.strip().removeprefix(EXPLANATION)}"
    return first
