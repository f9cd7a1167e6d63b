"""Acts around the import of a module that a script may import later. The one import hook of all of the library.

It costs nothing if the module is never imported. Imports nothing of a framework.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class Finder:
    """Lets the usual finders find the watched modules, and wraps how they are executed.

    A module is watched until it was executed: libraries look for one without importing it.
    """

    def __init__(self) -> None:
        self.before: dict[str, list[Callable[[ModuleSpec], None]]] = {}
        self.after: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.after:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                self._wrap(spec)
                return spec
        return None

    def _wrap(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        if loader is None:
            return
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            for act in self.before.pop(spec.name, ()):
                act(spec)
            run(module)
            for finish in self.after.pop(spec.name, ()):
                finish(module)

        loader.exec_module = exec_module


_finder = Finder()


def act_after(
    name: str, after: Callable[[ModuleType], None], before: Callable[[ModuleSpec], None] | None = None
) -> None:
    """Call `after` with the module once its import has ended, `before` just before it is executed. Both may raise."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.after.setdefault(name, []).append(after)
    if before:
        _finder.before.setdefault(name, []).append(before)
