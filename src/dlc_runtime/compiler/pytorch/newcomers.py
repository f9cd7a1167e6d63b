"""Tells whether an optimizer that joins a training is to stay: its modules get a choice, and a short trial gets none.

A script may train a copy of its model for some steps: to find a learning rate, or to look ahead. The choice for the
model that it trains all the time must not begin anew for that.
"""

from __future__ import annotations

import weakref

from dlc_runtime.compiler.hooks import IdentitySet

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch

# So many steps of its own, while the main optimizer lives.
STEPS_TO_STAY = 10


class Newcomers:
    """Optimizers of this process: those that have stayed, and the steps of the others."""

    def __init__(self) -> None:
        self._stayed, self._given = IdentitySet(), IdentitySet()
        self._steps: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()

    def add(self, optimizer: torch.optim.Optimizer) -> None:
        """Let an optimizer stay."""
        self._stayed.add(optimizer)

    def takes_in(self, optimizer: torch.optim.Optimizer, main: torch.optim.Optimizer | None) -> bool:
        """Return True once: at the step with which the optimizer is known to stay. `main`: whose steps are counted."""
        if optimizer in self._stayed:
            return False
        steps = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if main is not None and steps < STEPS_TO_STAY:
            return False
        self._stayed.add(optimizer)
        return True

    def pop_new(self) -> list[torch.optim.Optimizer]:
        """Return those that have stayed and live, each once."""
        found = [optimizer for optimizer in self._stayed.living() if optimizer not in self._given]
        self._given.add_all(found)
        return found
