"""Keeps our faults out of the user's training: a hook of ours that fails is told once, and the script goes on eager."""

from __future__ import annotations

import functools

from dlc_runtime.compiler.base.errors import StrictError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def guarded(method: Callable[..., None]) -> Callable[..., None]:
    """For methods of a class that has `fail(fault)`."""

    @functools.wraps(method)
    def run(self: Any, *arguments: Any) -> None:
        try:
            method(self, *arguments)
        except StrictError:
            raise
        except Exception as fault:
            self.fail(fault)

    return run
