"""The report's lists as XLA fills them: one entry for each program that it compiled."""

from __future__ import annotations

import re

from dlc_runtime.compiler.report.record import Record, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.compiler.tensorflow_xla.programs import Program

LONGEST = 400  # characters of an error's text
FRAME = r"Graph execution error|Detected at node|<stack traces|\[\[|File \"|\w*Error in user code|Traceback"
LOADS = "TensorFlow prints error lines (cpu_aot_loader, XlaSerializedCacheEntry) as it loads from the cache: no harm"


class XlaRecord(Record):
    def __init__(self) -> None:
        super().__init__()
        self._hits = self._misses = 0

    def add_compiled(self, name: str, file: str, line: int, parameters: int) -> None:
        self.modules.append({"module": name, "file": file, "line": line, "parameters": parameters})

    def add_programs(
        self, where: dict[str, Any], seconds: float, programs: list[Program], first: bool, observed: bool
    ) -> None:
        """`first`: the first compiled call. Where it leaves no new program, it was loaded from the cache."""
        self._misses += len(programs)
        for program in programs:
            identifier = f"{program.name or 'program'}/{len(self.graphs)}"
            self.add_graph(identifier, where, seconds / len(programs), program.operations)
        if programs or not first:
            return
        self.add_graph(f"{where['function']}/{len(self.graphs)}", where, seconds, 0)
        if observed:
            self._hits += 1
            if LOADS not in self.notes:
                self.notes.append(LOADS)

    def add_failure(self, where: dict[str, Any], fault: Exception, lost: int) -> str:
        """Returns the warning. `lost`: batches that no step trained on."""
        reason = reason_of(str(fault))
        self.fallbacks.append({**where, "type": type(fault).__name__, "reason": reason})
        skipped = f" {lost} batches were skipped." if lost else ""
        return self.warn(
            f"XLA does not take {place(where)} as a whole, so it is compiled in parts (auto-clustering): "
            f"{type(fault).__name__}: {reason}.{skipped}"
        )

    def cache_counts(self) -> tuple[int, int]:
        return (self._hits, self._misses) if self.cache.get("folder") else (0, 0)


def reason_of(message: str) -> str:
    """One line, with the operations that XLA lacks where it names them."""
    lacks = re.findall(r"(\w+) \(No registered", message)
    if lacks:
        return f"XLA lacks {', '.join(dict.fromkeys(lacks))}"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if not re.match(FRAME, line)]
    return (telling or lines or [""])[0][:LONGEST]
