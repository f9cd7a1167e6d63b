"""The session of one process: its meters, also of a loop over any iterable, and its report. Imports no framework."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading

from dlc_runtime.profile.fetches import FOLDER, Fetch, find_slow, queued_seconds, read_fetches
from dlc_runtime.profile.meter import Clock, Meter
from dlc_runtime.profile.resources import Framework, Gpus, Memory, Processors
from dlc_runtime.profile.settings import SWITCH, Settings, read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")

VERSION = 1
RUNNING, MEASURED, ENDED = "running", "measured", "ended"
_lock = threading.RLock()
_current: Session | None = None


def log(text: str) -> None:
    # Nowhere is left to say it: the script has closed it, or who read it is gone.
    with contextlib.suppress(Exception):
        sys.stderr.write(f"dlc profile: {text}\n")
        sys.stderr.flush()


def current_session(framework: Framework) -> Session:
    """Return this process's session. A forked process begins its own."""
    global _current
    with _lock:
        if _current is None or _current.process != os.getpid():
            _current = Session(read_settings({**os.environ, SWITCH: "1"}), framework)
        return _current


class Session:
    """Measures until there are enough steps, then lets the script run on as it would without it."""

    def __init__(self, settings: Settings, framework: Framework) -> None:
        self.settings, self.framework, self.process = settings, framework, os.getpid()
        self._rank = settings.rank
        self.over = False
        self.folder = tempfile.mkdtemp(prefix="dlc-profile-")
        os.environ[FOLDER] = self.folder
        self._clock = Clock(framework.settle, compilations=framework.compilations, queued=framework.queued)
        # Keep the measured object alive, so that its id is not used again.
        self._meters: dict[int, tuple[Any, Meter]] = {}
        self._next = 8
        self._failed = False
        self._memory = Memory(framework)
        self._marked = False
        self._processors = Processors(settings.ranks)
        self._gpus = Gpus() if settings.local_rank == 0 else None
        atexit.register(self._end)
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            # A forked child ends without atexit.
            from multiprocessing.util import Finalize

            Finalize(None, self._end, exitpriority=0)

    def meter_of(self, source: Any) -> Meter:
        if id(source) not in self._meters:
            self._meters[id(source)] = (source, Meter(self._clock, self.settings.skip))
        return self._meters[id(source)][1]

    def after_step(self) -> None:
        """Write after 8, 16, 32 ... steps, so that a job that is killed leaves a report too."""
        steps = self._main().steps
        given = self.framework.rank()
        # The group may be gone at the end.
        if given is not None:
            self._rank = given
        if steps and self.settings.ends and not self._marked:
            self._marked = True
            self._memory.mark()
        if steps >= self.settings.steps:
            self.finish(MEASURED)
            if self.settings.ends:
                _end_process()
        elif steps >= self._next:
            self._next = 2 * steps
            self.write(RUNNING)

    def finish(self, state: str) -> None:
        if self.over or os.getpid() != self.process:
            return
        self.over = True
        if self._gpus:
            self._gpus.end()
        self.write(state)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        self.finish(ENDED)

    def _main(self) -> Meter:
        """Return the loader that most of the time goes to: of training, not of an evaluation."""
        meters = (meter for _, meter in self._meters.values())
        return max(meters, key=lambda meter: meter.computing + meter.waiting, default=Meter(self._clock, 0))

    def write(self, state: str) -> None:
        value = self.as_json(state)
        if not value["steps"]:
            if state != RUNNING:
                log(f"nothing measured: no loop over data had more than {self.settings.skip} steps")
            return
        path = os.path.join(self.settings.report, f"rank-{self._rank}.json")
        try:
            os.makedirs(self.settings.report, exist_ok=True)
            partial = f"{path}.{self.process}.tmp"
            with open(partial, "w") as file:
                json.dump(value, file, indent=1)
            os.replace(partial, path)
        except OSError as error:
            # A full disk must not end the training.
            if not self._failed:
                log(f"no report in {self.settings.report}: {error}")
            self._failed = True
            return
        if state != RUNNING:
            share = value["waiting_seconds"] / (value["waiting_seconds"] + value["computing_seconds"])
            log(f"{share:.0%} of the time of {value['steps']} steps was waiting for data: dlc profile {path}")

    def as_json(self, state: str) -> dict[str, Any]:
        meter = self._main()
        return {
            "version": VERSION,
            "state": state,
            "framework": self.framework.name,
            "host": socket.gethostname(),
            "rank": self._rank,
            "ranks": self.settings.ranks,
            "steps": meter.steps,
            "step_seconds": meter.step,
            "waiting_seconds": meter.waiting,
            "waiting_queued_seconds": meter.queued if self.framework.queued() is not None else None,
            "computing_seconds": meter.computing,
            "starting_seconds": meter.starting,
            "compiling": {"steps": meter.compiled_steps, "seconds": meter.compiling},
            "batch_bytes": meter.batch_bytes,
            "preprocessing": self._preprocessing(meter),
            "memory": self._memory.as_json(),
            "cpu": self._processors.as_json(),
            "gpu": self._gpus.as_json() if self._gpus else None,
        }

    def _preprocessing(self, meter: Meter) -> dict[str, Any]:
        fetched, durations = read_fetches(self.folder, meter.workers)
        work, slow = meter.in_process.plus(fetched), find_slow([*meter.durations, *durations])
        threads = self.framework.threads_prepare
        # What a batch takes the threads is not seen. It is at least what training waits for it.
        least = meter.waiting / meter.steps * work.batches if threads and meter.steps else 0.0
        return {
            "batches": work.batches,
            "cpu_seconds": work.cpu,
            "seconds": max(work.seconds, least),
            "queued_seconds": None if threads or queued_seconds() is None else work.queued,
            "workers": meter.most_workers,
            "parallel": meter.parallel,
            "slow": slow._asdict(),
            # In how many looks workers were asleep, by what they waited in.
            "asleep_in": meter.asleep.seen,
        }


def _end_process() -> None:
    """End at once: no handler of the script's runs, so nothing is saved and no rank waits for another."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def measure_loop(batches: Iterable[T]) -> Iterator[T]:
    """Measure a loop; batches of torch and TensorFlow are measured by the import hook, and not twice."""
    if type(batches).__module__.partition(".")[0] in ("torch", "tensorflow"):
        yield from batches
        return
    session = current_session(Framework())
    meter = session.meter_of(batches)
    iterator = iter(batches)
    while not session.over:
        meter.ask()
        session.after_step()
        fetch = Fetch()
        try:
            batch = next(iterator)
        except StopIteration:
            meter.leave()
            return
        meter.add_fetch(fetch.end())
        meter.got(batch)
        yield batch
    yield from iterator
