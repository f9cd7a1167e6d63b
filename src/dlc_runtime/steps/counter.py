"""The steps of this process, in a file that others read while it runs. Imports no framework.

The file has a line of JSON, padded to 512 bytes, that names its fields; then an 8-byte float in this machine's order
for each. A reader sees them also while the process hangs, spins or is stopped.
"""

from __future__ import annotations

import contextlib
import functools
import json
import mmap
import os
import sys
import time
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

FOLDER = "DLC_STEPS_DIR"
HEAD_BYTES = 512
FIELDS = (
    # Training steps of this process, and when the first and the last one ended (seconds of time.monotonic)
    "steps",
    "began_at",
    "stepped_at",
    # Step of the whole training that a trainer knows, also of earlier jobs; -1 without one
    "global_step",
    # Of the whole training; 0 if nobody says it
    "total_steps",
    # Loops over the training's loader, from 1; batches taken of this one, and its length; 0: unknown
    "epoch",
    "epoch_batch",
    "epoch_batches",
)
STEPS, BEGAN_AT, STEPPED_AT, GLOBAL_STEP, TOTAL_STEPS, EPOCH, EPOCH_BATCH, EPOCH_BATCHES = range(len(FIELDS))
# Between two looks at what a trainer says
ASK_SECONDS = 1.0


def rank_of_process() -> str:
    """Return the rank by the variables of torchrun, MPI or Horovod; 0 for one process alone."""
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "HOROVOD_RANK")
    return next((os.environ[name] for name in names if os.environ.get(name)), "0")


def never_raises(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap a method of Counter: a fault of ours, or of a sampler's length, is told, and the script trains on."""

    @functools.wraps(method)
    def run(self: Any, *arguments: Any) -> None:
        if self.is_off:
            return
        try:
            method(self, *arguments)
        except Exception as fault:
            self.is_off = True
            tell(f"steps are not counted any more: {type(fault).__name__}: {fault}")

    return run


class Counter:
    """Of one process. What it raises ends no training."""

    def __init__(self) -> None:
        self.process = os.getpid()
        # Nothing is written before the first step: most processes never make one
        self.values: Any = None
        self.is_off = False
        # Optimizers that have stepped since the last step was counted, by id
        self._round: dict[int, weakref.ref[Any]] = {}
        # A trainer's own step, the total, and its epoch from 1; None as long as it does not know
        self.ask_trainer: Callable[[], tuple[int, int, int] | None] | None = None
        self._asked_at = 0.0
        self._offset: int | None = None
        # The loader that gave the last batch
        self.batches: Any = None

    @never_raises
    def note_optimizer(self, optimizer: object) -> None:
        """Count a step of one optimizer. Several that step in turns, as in a GAN, make one step together."""
        key = id(optimizer)
        if key in self._round or any(reference() is None for reference in self._round.values()):
            self._round = {}
        if not self._round:
            self.add_steps(1)
        self._round[key] = weakref.ref(optimizer)

    @never_raises
    def add_steps(self, number: int) -> None:
        """Count training steps that have just ended."""
        if self.values is None and not self._open():
            return
        values, now = self.values, time.monotonic()
        values[BEGAN_AT] = values[BEGAN_AT] or now
        values[STEPS] += number
        values[STEPPED_AT] = now
        is_new_epoch = self.batches is not None and self.batches.write(values, self._offset is not None)
        if self.ask_trainer is not None and (is_new_epoch or now - self._asked_at >= ASK_SECONDS):
            self._asked_at = now
            self._hear_trainer(self.ask_trainer())
        if self._offset is not None:
            values[GLOBAL_STEP] = values[STEPS] + self._offset

    @never_raises
    def say(self, field: int, value: float) -> None:
        """Set one field."""
        if self.values is not None or self._open():
            self.values[field] = value

    def _hear_trainer(self, told: tuple[int, int, int] | None) -> None:
        if told is not None:
            # It counts the step that has just ended a little later
            self._offset = told[0] + 1 - int(self.values[STEPS])
            self.values[TOTAL_STEPS], self.values[EPOCH] = told[1:]

    def _open(self) -> bool:
        folder, rank = os.environ.get(FOLDER, ""), rank_of_process()
        head = json.dumps({"version": 1, "rank": rank, "pid": self.process, "fields": FIELDS}).encode()
        size = HEAD_BYTES + 8 * len(FIELDS)
        try:
            fd = os.open(f"{folder}/{rank}-{self.process}.steps", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                # Not ftruncate alone: a full disk would end the process by SIGBUS
                os.write(fd, head.ljust(HEAD_BYTES) + bytes(size - HEAD_BYTES))
                self.values = memoryview(mmap.mmap(fd, size))[HEAD_BYTES:].cast("d")
            finally:
                os.close(fd)
        except (OSError, ValueError) as error:
            self.is_off = True
            tell(f"steps are not counted: {error}")
            return False
        self.values[GLOBAL_STEP] = -1
        return True


def tell(text: str) -> None:
    # Nowhere is left to say it: the script has closed it
    with contextlib.suppress(Exception):
        print(f"dlc: {text}", file=sys.stderr, flush=True)


class ThisProcess:
    """Holds this process's counter; a forked one begins its own."""

    counter = Counter()

    @classmethod
    def begin(cls) -> None:
        cls.counter = Counter()


os.register_at_fork(after_in_child=ThisProcess.begin)
