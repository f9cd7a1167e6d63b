"""What one process has compiled so far, whatever compiles: filled by a framework's room, written by the report."""

from __future__ import annotations

from dlc_runtime.compiler.base.places import is_users

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.compiler.report.causes import Cause

MOST = 500  # entries of each list
FIRST_WARNING = 3  # recompilations of one function; then at each doubling


class Record:
    """`where` is of each entry: function, file, line and step."""

    def __init__(self) -> None:
        self.modules: list[dict[str, Any]] = []
        self.eager: list[dict[str, Any]] = []
        self.graphs: dict[str, dict[str, Any]] = {}
        self.recompilations: list[dict[str, Any]] = []
        self.breaks: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.fallbacks: list[dict[str, Any]] = []
        self.gave_up: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.cache: dict[str, Any] = {}
        self.compile_seconds = 0.0
        self._recompiled: dict[tuple[str, int, str], int] = {}

    def add_eager(self, module: str, reason: str, remedy: str = "") -> bool:
        """Returns whether it is new."""
        entry = {"module": module, "reason": reason, "remedy": remedy}
        if entry in self.eager:
            return False
        self.eager.append(entry)
        return True

    def add_graph(self, identifier: str, where: dict[str, Any], seconds: float, operations: int) -> None:
        if len(self.graphs) < MOST:
            self.graphs[identifier] = {
                "id": identifier,
                **where,
                "seconds": seconds,
                "backward_seconds": 0.0,
                "operations": operations,
            }

    def add_recompilation(self, where: dict[str, Any], seconds: float, cause: Cause) -> str:
        """Returns what to warn about, if anything."""
        entry = {**where, "seconds": seconds, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy}
        if len(self.recompilations) < MOST:
            self.recompilations.append(entry)
        key = (where["file"], where["line"], where["function"])
        count = self._recompiled[key] = self._recompiled.get(key, 0) + 1
        if count < FIRST_WARNING or (count // FIRST_WARNING) & (count // FIRST_WARNING - 1) or count % FIRST_WARNING:
            return ""
        return self.warn(
            f"{place(where)} was compiled again {count} times, last at step {where['step']}: {cause.text}. "
            f"Remedy: {cause.remedy}"
        )

    def add_gave_up(self, compiler: str, where: dict[str, Any], cause: Cause) -> str:
        """Returns the warning: `compiler` compiles a function no more."""
        self.gave_up.append({**where, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy})
        return self.warn(
            f"{compiler} gave up on {place(where)} at step {where['step']}: from now on what it has not compiled yet "
            f"runs eager. Last cause: {cause.text}. Remedy: {cause.remedy}"
        )

    def add_fallback(self, where: dict[str, Any], kind: str, reason: str, failed_at: tuple[str, int] = ("", 0)) -> str:
        """Returns the warning: a function does not compile, for `reason`, at a line of `failed_at`."""
        entry = {**where, "type": kind, "reason": reason}
        if failed_at[0]:
            entry.update(failed_file=failed_at[0], failed_line=failed_at[1])
        if len(self.fallbacks) < MOST:
            self.fallbacks.append(entry)
        return self.warn(f"{place(where)} runs eager, it does not compile: {kind}: {reason}")

    def add_break(self, reason: str, stack: tuple[tuple[str, int], ...]) -> None:
        """`stack`: files and lines, outermost first."""
        file, line = innermost(stack)
        entry = self.breaks.setdefault(
            (file, line, reason), {"reason": reason, "file": file, "line": line, "count": 0, "stack": list(stack)}
        )
        entry["count"] += 1

    def warn(self, text: str) -> str:
        if len(self.warnings) < MOST:
            self.warnings.append(text)
        return text

    def cache_counts(self) -> tuple[int, int]:
        """Hits and misses of the compile cache in this process, where the compiler tells."""
        return 0, 0

    def as_json(self) -> dict[str, Any]:
        hits, misses = self.cache_counts()
        return {
            "compile_seconds": round(self.compile_seconds, 6),
            "cache": self.cache,
            "notes": self.notes,
            "cache_hits": hits,
            "cache_misses": misses,
            "modules": self.modules,
            "eager": self.eager,
            "graphs": list(self.graphs.values()),
            "recompilations": self.recompilations,
            "graph_breaks": list(self.breaks.values()),
            "fallbacks": self.fallbacks,
            "gave_up": self.gave_up,
            "warnings": self.warnings,
        }


def place(where: dict[str, Any]) -> str:
    return f"{where['function']} ({where['file']}:{where['line']})"


def innermost(stack: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """The user's line nearest to the break; the break's own where no line is the user's."""
    users = [frame for frame in stack if is_users(frame[0])]
    return (users or list(stack) or [("", 0)])[-1]
