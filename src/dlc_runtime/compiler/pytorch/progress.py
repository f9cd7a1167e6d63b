"""Tells that something is being compiled: in the log while that takes minutes, in the report for a job that is stopped.

Only the call itself knows which of our modules is compiled.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.pytorch import dynamo
from dlc_runtime.compiler.report.writer import LOCAL_VARIABLES, first_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.report.record import Record

UNNAMED = "what the script compiles itself"
SECONDS_UNTIL_WRITTEN = 1.0
SECONDS_BETWEEN = 60.0


class CalledModule:
    """The module whose compiled code was called last."""

    name = UNNAMED


class Progress:
    """What one process compiles at this moment, from a step's first compilation to its end."""

    def __init__(self, record: Record, write: Callable[[], None]) -> None:
        self._record, self._write = record, write
        self._process = os.getpid()
        self._listening = False
        self._since = 0.0
        self._step_ended: threading.Event | None = None

    def listen(self) -> None:
        if not self._listening:
            self._listening = True
            dynamo.listen_to_compiling(self._begin, self._end)

    def _begin(self, *_arguments: Any) -> None:
        # A forked child has a progress of its own.
        if os.getpid() != self._process:
            return
        self._record.compiling = [{"function": CalledModule.name, "seconds": 0.0}]
        if self._step_ended is None:
            self._since, self._step_ended = time.monotonic(), threading.Event()
            thread = threading.Thread(target=self._watch, args=(self._step_ended,), name="dlc-compiling", daemon=True)
            thread.start()

    def _end(self, *_arguments: Any) -> None:
        stopped = sys.exc_info()[1]
        if isinstance(stopped, (KeyboardInterrupt, SystemExit)):
            # The script may save for minutes: that is no compiling.
            self._note_seconds()
            self.end_step()
        else:
            self._record.compiling = []

    def end_step(self) -> None:
        if self._step_ended is not None:
            self._step_ended.set()
            self._step_ended = None

    def _note_seconds(self) -> float:
        seconds = time.monotonic() - self._since
        for entry in self._record.compiling:
            entry["seconds"] = round(seconds, 1)
        return seconds

    def _watch(self, ended: threading.Event) -> None:
        wait = SECONDS_UNTIL_WRITTEN
        while not ended.wait(wait):
            seconds = self._note_seconds()
            if seconds >= SECONDS_BETWEEN - 1 and self._record.compiling and first_number(LOCAL_VARIABLES) == 0:
                log(progress_text(self._record, seconds))
            self._write()
            wait = SECONDS_BETWEEN - seconds % SECONDS_BETWEEN


def progress_text(record: Record, seconds: float) -> str:
    """Say what is being compiled, what that may cost, and how to do without."""
    choosing = record.choosing
    bound = choosing.budget_words() if choosing is not None else "the job asked for compiling without a budget"
    cache = "" if record.cache.get("folder") else ", DLC_COMPILE_CACHE=FOLDER spares the next job most of it"
    return (
        f"still compiling {record.compiling[0]['function']}, {seconds:.0f} s; {bound}; "
        f"DLC_COMPILER=off trains without it{cache}"
    )


def with_progress(compiled: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return `compiled`, with the name for the progress.

    An exception that leaves it is the script's own: eager code has raised it too.
    """

    def call(*arguments: Any, **named: Any) -> Any:
        CalledModule.name, known = name, dynamo.count_records()
        try:
            return compiled(*arguments, **named)
        except Exception as fault:
            if not dynamo.is_dynamo_error(fault):
                dynamo.forget_failures(known)
            raise

    return call
