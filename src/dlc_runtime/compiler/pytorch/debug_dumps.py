"""Debug mode: torch's own trace and the graphs on their way to code, in a folder beside the report that stays bounded.

Torch reads these variables while it is imported, so `ask` comes before that and imports no torch.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from dlc_runtime.compiler.hooks import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from dlc_runtime.compiler.settings import Settings

FOLDER = "debug"  # below the report's
TRACE, GRAPHS, PAGES = "trace", "torch_compile_debug", "pages"
# Ranks of a host whose trace becomes pages.
RENDERED = 8
SECONDS = 60  # for that; only a bound
MIB = 1 << 20
CONTENT = f"""\
What is here was asked for with DLC_COMPILER_DEBUG=1.

{PAGES}/rank-R-PID/index.html   the trace as pages: each graph, its guards, why it was compiled again, its code
{TRACE}/*.log                   the same as torch wrote it (TORCH_TRACE); `tlparse FILE -o FOLDER` makes the pages
counters-rank-R-PID.json       torch's counters: graphs, graph breaks, cache hits, operations without a kernel
{GRAPHS}/run_*/torchinductor/MODEL/
    fx_graph_readable.py       the graph as torch.fx shows it
    fx_graph_transformed.py    after the passes of inductor
    fx_graph_runnable.py       a script that compiles this graph alone, for a bug report
    ir_pre_fusion.txt          inductor's operations
    ir_post_fusion.txt         the same, fused: what becomes one kernel
    output_code.py             the code that runs
"""


def request_dumps(environ: MutableMapping[str, str], report: str) -> None:
    """Set the variables that torch reads, for this process and its children. What the user has set stays."""
    folder = os.path.join(report, FOLDER)
    try:
        os.makedirs(os.path.join(folder, TRACE), exist_ok=True)
        with open(os.path.join(folder, "README.txt"), "w", encoding="utf-8") as stream:
            stream.write(CONTENT)
    except OSError as fault:
        log(f"no debug dumps: {fault}")
        return
    environ.setdefault("TORCH_TRACE", os.path.join(folder, TRACE))
    environ.setdefault("TORCH_COMPILE_DEBUG", "1")
    environ.setdefault("TORCH_COMPILE_DEBUG_DIR", folder)
    # What comes from a cache leaves no dump.
    environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")


class Dumps:
    """One process's dumps: stopped when the folder of all ranks is full, completed at the end."""

    def __init__(self, settings: Settings) -> None:
        self._folder = os.path.join(settings.report, FOLDER)
        self._most = settings.debug_mib * MIB
        self._open = settings.debug and os.path.isdir(self._folder)

    def after_compiling(self) -> None:
        if self._open and folder_size(self._folder) > self._most:
            self._open = False
            stop_dumping()
            log(f"{self._folder} holds more than {self._most // MIB} MiB: no more is dumped (DLC_COMPILER_DEBUG_MB)")

    def end(self, rank: int, local_rank: int) -> None:
        if not os.path.isdir(self._folder) or "torch._dynamo" not in sys.modules:
            return
        write_counters(os.path.join(self._folder, f"counters-rank-{rank}-{os.getpid()}.json"))
        trace = find_own_trace()
        if not trace.startswith(self._folder):
            return
        os.chmod(trace, 0o644)  # made for this user alone
        if self._open and local_rank < RENDERED:
            render_pages(trace, os.path.join(self._folder, PAGES, f"rank-{rank}-{os.getpid()}"))


def folder_size(folder: str) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # another rank's temporary file
    return total


def stop_dumping() -> None:
    import torch._inductor.config as config
    from torch._logging import _internal as logs

    config.trace.enabled = False
    # A handler makes torch trace.
    trace_log: Any = getattr(logs, "trace_log", None)
    for handler in list(getattr(trace_log, "handlers", ())):
        trace_log.removeHandler(handler)


def find_own_trace() -> str:
    """Return the file that torch writes this process's trace to, or ""."""
    from torch._logging import _internal as logs

    handler = getattr(logs, "LOG_TRACE_HANDLER", None)
    stream = getattr(handler, "stream", None)
    if stream is None:
        return ""
    stream.flush()
    name = getattr(stream, "name", "")
    if not isinstance(name, str):  # opened by number
        name = getattr(handler, "_stream_path", "") or os.readlink(f"/proc/self/fd/{name}")
    return name


def write_counters(path: str) -> None:
    from dlc_runtime.compiler.pytorch.dynamo import dynamo_utils

    counters = {name: dict(found) for name, found in getattr(dynamo_utils(), "counters", {}).items()}
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(counters, stream, indent=1, default=str)


def render_pages(trace: str, pages: str) -> None:
    """Run tlparse if the environment has it."""
    tlparse = shutil.which("tlparse", path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))
    if tlparse is None:
        return
    command = [tlparse, trace, "-o", pages, "--overwrite", "--no-browser"]
    try:
        os.makedirs(os.path.dirname(pages), exist_ok=True)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as fault:
        log(f"{trace} could not be made into pages: {fault}")
