"""Helpers of hooks: a fault is told once and training goes on, lines of the log, a set of weak references."""

from __future__ import annotations

import functools
import sys
import weakref

from dlc_runtime.compiler.settings import StrictError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class IdentitySet:
    """Holds things by identity and keeps none alive."""

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

    def living(self) -> list[Any]:
        return living(self._references.values())


def living(references: Iterable[weakref.ref[Any]]) -> list[Any]:
    """Return what is still there of things that are referred to weakly."""
    return [thing for reference in references if (thing := reference()) is not None]


def never_raises(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap a method of a class that has `fail(fault)`: that is called with an exception in place of the script."""

    @functools.wraps(method)
    def run(self: Any, *arguments: Any) -> None:
        try:
            method(self, *arguments)
        except StrictError:
            raise
        except Exception as fault:
            self.fail(fault)

    return run


PREFIX = "dlc compiler: "


def log(text: str) -> None:
    try:
        sys.stderr.write(PREFIX + text.rstrip().replace("\n", "\n" + PREFIX) + "\n")
        sys.stderr.flush()
    except Exception:  # noqa: S110 - nowhere is left to say it
        pass
