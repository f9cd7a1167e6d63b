"""Puts into the report what Dynamo tells of its compilations, with the names of the user's modules and parameters."""

from __future__ import annotations

import inspect
import re

import torch

from dlc_runtime.compiler.base.places import place_of
from dlc_runtime.compiler.pytorch import dynamo
from dlc_runtime.compiler.report.causes import Cause, cause_of
from dlc_runtime.compiler.report.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.compiler.pytorch.dynamo import Break, Compilation


class Compilations(Record):
    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, tuple[str, int]] = {}
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
        if item.operations or item.cause:
            self.add_graph(item.id, where, item.seconds, item.operations)
        return self.add_recompilation(where, item.seconds, self._cause(item, where)) if item.cause else ""

    def _add_failure(self, item: Compilation, where: dict[str, Any]) -> str:
        if dynamo.is_recompile_limit(item):
            return self.add_gave_up("Dynamo", where, self._cause(item, where))
        failed_at = (item.failure_file, item.failure_line)
        return self.add_fallback(where, item.failure_type, reason_of(item.failure), failed_at)

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

    def add_graph_break(self, item: Break) -> None:
        hook = item.reason.partition("(reason: hook ")[2].partition("))")[0]
        reason = f"hook {hook}) runs outside the graph" if hook else reason_of(item.reason)
        self.add_break(reason, item.stack)

    def cache_counts(self) -> tuple[int, int]:
        return dynamo.cache_counts() if self.graphs or self.fallbacks else (0, 0)


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
