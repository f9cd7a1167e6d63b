"""How many steps the whole training has, as Hugging Face's and Lightning's trainers know it."""

from __future__ import annotations

import contextlib
import functools
import math
import weakref

from dlc_runtime.steps.counter import ThisProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Optional

    # Steps that are done, those of the whole training, and the epoch from 1
    Told = Optional[tuple[int, int, int]]


def patch(module: ModuleType) -> None:
    """Patch `module`: transformers.trainer_callback, or the trainer of Lightning under either of its names."""
    if module.__name__.startswith("transformers"):
        _ask_each(module.__dict__["TrainerState"], ask_transformers)
    else:
        _ask_each(module.__dict__["Trainer"], ask_lightning)


def ask_transformers(state: Any) -> Told:
    """Return what the Trainer knows, before it counts the step that has just ended."""
    return (int(state.global_step), int(state.max_steps), int(state.epoch or 0) + 1) if state.max_steps > 0 else None


def ask_lightning(trainer: Any) -> Told:
    """Return the same. Reads only what has no side effect: its own estimate of all steps would load the data."""
    if len(trainer.optimizers) != 1:  # it counts the step of each
        return None
    total = trainer.max_steps or 0
    batches, epochs = trainer.num_training_batches, trainer.max_epochs or 0
    if total <= 0 and epochs > 0 and 0 < batches < math.inf:
        total = epochs * math.ceil(batches / trainer.accumulate_grad_batches)
    return (int(trainer.global_step), int(total), int(trainer.current_epoch) + 1) if total > 0 else None


def _ask_each(kind: Any, ask: Callable[[Any], Told]) -> None:
    """Ask the newest one of a class that knows its steps."""
    original = kind.__init__

    @functools.wraps(original)
    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        _add_source(weakref.ref(self), ask)

    kind.__init__ = init


# Of the living ones: a Trainer makes a state anew when it resumes
MOST_SOURCES = 8
_sources: list[tuple[Any, Callable[[Any], Told]]] = []


def _add_source(source: Any, ask: Callable[[Any], Told]) -> None:
    _sources[:] = [*_sources, (source, ask)][-MOST_SOURCES:]
    ThisProcess.counter.ask_trainer = _ask_sources


def _ask_sources() -> Told:
    told: Told = None
    for reference, ask in reversed(_sources):
        source = reference()
        # A version that names its fields otherwise tells nothing
        with contextlib.suppress(Exception):
            told = ask(source) if source is not None else None
        if told is not None:
            break
    return told
