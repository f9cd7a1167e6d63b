"""Writes a process's report: as compiling goes on, every few minutes, and at its end.

A process that is killed writes nothing any more: what it last wrote stays.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import time

from dlc_runtime.compiler.hooks import log
from dlc_runtime.compiler.report import merge
from dlc_runtime.compiler.report.summary import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from dlc_runtime.compiler.report.record import Record
    from dlc_runtime.compiler.report.step_times import StepTimes
    from dlc_runtime.compiler.settings import Settings

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "SLURM_LOCALID")
# Time between writes, while there are many compilations.
SECONDS_BETWEEN = 10.0
RUNNING, ENDED = "running", "ended"
# Signals that ask to stop; no descriptor.
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
NONE = -1


class Writer:
    """Writes one rank's file and merges the folder."""

    def __init__(
        self, settings: Settings, record: Record, steps: StepTimes, facts: Callable[[], dict[str, Any]]
    ) -> None:
        """Take `facts`: framework, device and notes of this process, and its rank if the framework knows it."""
        self._settings, self._record, self._steps, self._facts = settings, record, steps, facts
        self.before_end: Callable[[], None] = lambda: None
        self.at_end: Callable[[int, int], None] = lambda rank, local_rank: None
        self._started = time.time()
        self._process = os.getpid()
        self._rank = first_number(RANK_VARIABLES)
        self._written = 0.0
        self._compiled = 0
        self._failed = self._open = False
        self._stops = Stops()
        # Threads write too: now and then, and while something is compiled.
        self._lock = threading.RLock()

    def open(self) -> None:
        """Have a report at the process's end, whether it has steps or not."""
        if self._open:
            return
        self._open = True
        self._stops.listen()
        atexit.register(self._end)
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            # A forked child ends without atexit.
            from multiprocessing.util import Finalize

            Finalize(None, self._end, exitpriority=0)
        threading.Thread(target=self._write_now_and_then, name="dlc-compiler-report", daemon=True).start()

    def after_step(self) -> bool:
        """Return whether something was written."""
        count = self._steps.count
        self.open()
        compiled = len(self._record.graphs)
        news = compiled != self._compiled and time.monotonic() - self._written > SECONDS_BETWEEN
        # 1, 2, 4, 8 ...: a short run leaves a report too, however it ends.
        if not news and count & (count - 1):
            return False
        self._compiled = compiled
        self.write(with_page=news)
        return True

    def write(self, state: str = RUNNING, with_page: bool = False) -> None:
        self._written = time.monotonic()
        try:
            with self._lock:
                merge.write_rank(self._settings.report, self._as_json(state))
                merge.merge_folder(self._settings.report, with_page)
        except Exception as fault:
            # A full disk must not end the training.
            if not self._failed:
                self._failed = True
                log(f"no report in {self._settings.report}: {fault}")

    def _write_now_and_then(self) -> None:
        while True:
            time.sleep(self._settings.minutes * 60)
            self.write(with_page=True)
            self._stops.has_come()

    def _end(self) -> None:
        if os.getpid() != self._process or not self._open:
            return
        self._open = False
        self.before_end()
        self.write(ENDED, with_page=True)
        local_rank = first_number(LOCAL_VARIABLES, self._rank)
        try:
            self.at_end(self._rank, local_rank)
        except Exception as fault:
            log(f"debug dumps are not complete: {fault}")
        if not self._failed and local_rank == 0:
            folder = self._settings.report
            with self._lock:
                report = merge.merge_folder(folder)
            if not self._stops.has_come():
                log(summary(report, os.path.join(folder, merge.MERGED)))

    def _as_json(self, state: str) -> dict[str, Any]:
        facts = self._facts()
        # A script may end its group before we end.
        self._rank = facts.pop("rank", self._rank)
        record = self._record.as_json()
        notes = [*record["notes"], *facts.pop("notes", [])]
        return {
            "rank": self._rank,
            "host": socket.gethostname(),
            "pid": self._process,
            "state": state,
            "backend": self._settings.backend,
            **facts,
            "started": self._started,
            "written": time.time(),
            "steps": self._steps.as_json(),
            **record,
            "notes": notes,
        }


def first_number(variables: tuple[str, ...], default: int = 0) -> int:
    values = (os.environ.get(name, "") for name in variables)
    return next((int(value) for value in values if value.isdigit()), default)


class Stops:
    """The signals of this process since `listen`: after one the last words in the log are the script's.

    Python writes the number of each signal for which the script has a handler to a pipe of ours, and runs the handler
    as ever: nothing stands around it.
    """

    def __init__(self) -> None:
        self._read = self._write = NONE
        self._has_come = False

    def listen(self) -> None:
        """Listen, if nobody else does: asyncio has a pipe of its own."""
        try:
            held = signal.set_wakeup_fd(NONE)
        except ValueError:
            # Only the main thread may ask.
            return
        if held != NONE:
            signal.set_wakeup_fd(held)
            return
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # A child's signals are none of ours.
        os.register_at_fork(after_in_child=self._leave)

    def has_come(self) -> bool:
        """Tell whether one of them asked to stop. Call it now and then, or the pipe is full."""
        while not self._has_come and self._read != NONE:
            try:
                found = os.read(self._read, 1 << 16)
            except OSError:
                break
            self._has_come = not STOPS.isdisjoint(found)
        return self._has_come

    def _leave(self) -> None:
        self._read = NONE
        with contextlib.suppress(ValueError):
            held = signal.set_wakeup_fd(NONE)
            if held not in (self._write, NONE):
                # By now the script's.
                signal.set_wakeup_fd(held)
