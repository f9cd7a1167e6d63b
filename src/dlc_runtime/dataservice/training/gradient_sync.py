"""Tells Accelerate where an epoch ends: there it takes the optimizer's step though gradients are still accumulated.

`Accelerator.prepare` does that for a DataLoader and hands on everything else as it is. Imports nothing that the script
has not imported.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextlib.contextmanager
def iteration() -> Iterator[Any]:
    """An object whose `end_of_dataloader` is to be True while the loop has the last batch; None without Accelerate."""
    mixin = getattr(sys.modules.get("accelerate.data_loader"), "DataLoaderStateMixin", None)
    if mixin is None:
        yield None
        return
    state = _state(mixin)
    state.begin()
    try:
        yield state
    finally:
        state.end()


def _state(mixin: Any) -> Any:
    state = sys.modules["accelerate.state"]  # the mixin's module imports it

    class State(mixin):  # type: ignore[misc]
        """Accelerate's own part of a loader."""

        def __init__(self) -> None:
            self.gradient_state = state.GradientState()

    return State()
