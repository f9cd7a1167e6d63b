"""What one process has compiled so far: filled by the session, written by the report."""

from __future__ import annotations

import inspect
import re

import torch

from dlc_runtime.compiler.base.places import is_users, place_of
from dlc_runtime.compiler.pytorch import dynamo
from dlc_runtime.compiler.report.causes import Cause, cause_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.compiler.pytorch.choose import Stays
    from dlc_runtime.compiler.pytorch.dynamo import Break, Compilation

MOST = 500  # entries of each list
FIRST_WARNING = 3  # recompilations of one function; then at each doubling


class Record:
    def __init__(self) -> None:
        self.places: dict[str, tuple[str, int]] = {}
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
        self._frames: dict[str, tuple[str, str, int]] = {}  # what Dynamo's numbers of functions stand for
        self._parameters: dict[str, list[str]] = {}

    def add_module(self, module: torch.nn.Module) -> str:
        """Returns the name that its compiled function has."""
        base = type(module).__name__
        name, number = base, 1
        while name in self.places:
            number += 1
            name = f"{base}_{number}"
        self.places[name] = self.places[f"{name}.eval"] = place_of(type(module).forward)
        self._parameters[name] = self._parameters[f"{name}.eval"] = parameter_names(type(module).forward)
        file, line = self.places[name]
        parameters = sum(parameter.numel() for parameter in module.parameters())
        self.modules.append({"module": name, "file": file, "line": line, "parameters": parameters})
        return name

    def add_eager(self, stays: Stays) -> bool:
        """Returns whether it is new."""
        entry = {"module": stays.module, "reason": stays.reason, "remedy": stays.remedy}
        if entry in self.eager:
            return False
        self.eager.append(entry)
        return True

    def add_compilation(self, item: Compilation, step: int) -> str:
        """Returns what to warn about, if anything."""
        self.compile_seconds += item.seconds
        graph = self.graphs.get(item.id)
        if graph is not None and not item.function:  # the backward of a graph
            graph["backward_seconds"] += item.seconds
            return ""
        where = {**self._place(item), "step": step}
        if item.failure:
            return self._add_failure(item, where)
        if len(self.graphs) < MOST and (item.operations or item.cause):
            self.graphs[item.id] = {
                "id": item.id,
                **where,
                "seconds": item.seconds,
                "backward_seconds": 0.0,
                "operations": item.operations,
            }
        return self._add_recompilation(item, where) if item.cause else ""

    def _add_recompilation(self, item: Compilation, where: dict[str, Any]) -> str:
        cause = self._cause(item, where)
        entry = {**where, "seconds": item.seconds, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy}
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

    def _add_failure(self, item: Compilation, where: dict[str, Any]) -> str:
        if dynamo.is_recompile_limit(item):
            cause = self._cause(item, where)
            self.gave_up.append({**where, "cause": cause.text, "kind": cause.kind, "remedy": cause.remedy})
            return self.warn(
                f"Dynamo gave up on {place(where)} at step {where['step']}: from now on what it has not compiled yet "
                f"runs eager. Last cause: {cause.text}. Remedy: {cause.remedy}"
            )
        first = reason_of(item.failure)
        entry = {**where, "type": item.failure_type, "reason": first}
        if item.failure_file:
            entry.update(failed_file=item.failure_file, failed_line=item.failure_line)
        if len(self.fallbacks) < MOST:
            self.fallbacks.append(entry)
        return self.warn(f"{place(where)} runs eager, it does not compile: {item.failure_type}: {first}")

    def _place(self, item: Compilation) -> dict[str, Any]:
        """Where giving up is recorded, only Dynamo's number says what function it is about."""
        frame = item.id.partition("/")[0]
        if item.function:
            self._frames[frame] = (item.function, *self.places.get(item.function, (item.file, item.line)))
        function, file, line = self._frames.get(frame, ("", "", 0))
        return {"function": function, "file": file, "line": line}

    def _cause(self, item: Compilation, where: dict[str, Any]) -> Cause:
        """With the names of the user's parameters, not of the function around them."""
        cause = cause_of(item.cause)
        names = dict(enumerate(self._parameters.get(where["function"], ())))
        if not names:
            return cause
        text = re.sub(r"\barguments\[(\d+)\]", lambda found: names.get(int(found[1]), found[0]), cause.text)
        text = re.sub(r"\bnamed\['(\w+)'\]", r"\1", text)
        return cause._replace(text=re.sub(r"\bmodule\b(?=[.\[])", "self", text))

    def add_break(self, item: Break) -> None:
        reason = reason_of(item.reason)
        hook = item.reason.partition("(reason: hook ")[2].partition("))")[0]
        if hook:
            reason = f"hook {hook}) runs outside the graph"
        file, line = innermost(item.stack)
        entry = self.breaks.setdefault(
            (file, line, reason), {"reason": reason, "file": file, "line": line, "count": 0, "stack": list(item.stack)}
        )
        entry["count"] += 1

    def warn(self, text: str) -> str:
        if len(self.warnings) < MOST:
            self.warnings.append(text)
        return text

    def as_json(self) -> dict[str, Any]:
        hits, misses = dynamo.cache_counts() if self.graphs or self.fallbacks else (0, 0)
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


def parameter_names(forward: Any) -> list[str]:
    """Without `self`; up to one that takes any number."""
    names = []
    for parameter in list(inspect.signature(forward).parameters.values())[1:]:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        names.append(parameter.name)
    return names


def reason_of(failure: str) -> str:
    """Its first line, and what Dynamo explains below it."""
    first, _, rest = failure.strip().partition("\n")
    explained = [line.strip() for line in rest.splitlines() if line.strip().startswith("Explanation: ")]
    return f"{first}: {explained[0][len('Explanation: ') :]}" if explained else first


def place(where: dict[str, Any]) -> str:
    return f"{where['function']} ({where['file']}:{where['line']})"


def innermost(stack: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """The user's line nearest to the break; the break's own where no line is the user's."""
    users = [frame for frame in stack if is_users(frame[0])]
    return (users or list(stack) or [("", 0)])[-1]
