"""Finds ways that compile nothing, and the script's hooks because of which they do not."""

from __future__ import annotations

from torch.nn.modules import module as modules

from dlc_runtime.compiler.choosing.candidates import EAGER
from dlc_runtime.compiler.pytorch.dispatch import Dispatch, living_modules
from dlc_runtime.compiler.pytorch.script_hooks import describe_hook
from dlc_runtime.compiler.source_locations import is_user_code, location_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from dlc_runtime.compiler.pytorch.dynamo import PyTorchRecord

# Hooks of every module, as the script registers them with torch.nn.modules.module.
OF_ALL = ("_global_backward_hooks", "_global_backward_pre_hooks")
OF_ONE = ("_backward_hooks", "_backward_pre_hooks")


def find_backward_hooks(module: torch.nn.Module) -> Iterator[str]:
    """Yield each backward hook of the script that a module's call would run: Dynamo compiles no such call."""
    held = [getattr(modules, name, {}) for name in OF_ALL]
    held += [getattr(part, name, {}) for part in module.modules() for name in OF_ONE]
    found = (hook for hooks in held for hook in hooks.values() if is_user_code(location_of(hook)[0]))
    yield from dict.fromkeys(map(describe_hook, found))


class EmptyWays:
    """Finds ways of which no graph was made: they would be eager code, compared with eager code by measuring."""

    def __init__(self, record: PyTorchRecord) -> None:
        self._record = record
        # Graphs at the end of the step before.
        self._made = 0
        self._proven: set[str] = set()

    def find_reason(self, way: str) -> str:
        """Return why the step that has ended, the first one of a way, made no graph; "" if it made one."""
        before, self._made = self._made, self._record.graphs_made
        if self._made > before:
            self._proven.add(way)
        # A way is in the list of comparisons as soon as a module was called in it.
        if way == EAGER or way in self._proven or way not in Dispatch.compared:
            return ""
        hooks = list(dict.fromkeys(hook for module in living_modules() for hook in find_backward_hooks(module)))
        return f"{way} made no graph of {', '.join(self._record.places)}: {self._record.why_no_graph(hooks)}"
