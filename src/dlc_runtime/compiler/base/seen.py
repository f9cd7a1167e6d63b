"""A set of objects by identity that keeps none alive: tensors compare by element, and ids are used again."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class Seen:
    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add(self, thing: Any) -> None:
        self._references[id(thing)] = weakref.ref(thing)

    def add_all(self, things: Iterable[Any]) -> None:
        for thing in things:
            self.add(thing)

    def __contains__(self, thing: Any) -> bool:
        reference = self._references.get(id(thing))
        return reference is not None and reference() is thing
