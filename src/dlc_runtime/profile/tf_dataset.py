"""Measures loops over a tf.data.Dataset, also those inside of a tf.function, such as Keras's `fit`.

Its threads work in the training process and have no name of their own. So what they cost is the process's CPU time
without the main thread's: with GPUs that is preprocessing, without them an upper bound: training's threads are in it.
"""

from __future__ import annotations

import functools
import sys
import threading
import time

from dlc_runtime.profile.fetches import Fetches, cpu_seconds
from dlc_runtime.profile.resources import Framework
from dlc_runtime.profile.session import Session, current_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

COMPILER = "dlc_runtime.compiler.tensorflow_xla.session"
LOOP = "_dlc_profile_loop"
MOST_PARTS = 1000  # of a pipeline
# What is known of the first dataset: an iterator in a graph does not have its own.
_first: dict[str, bool] = {}


def patch(module: ModuleType) -> None:
    """Patch `module`, which is tensorflow.python.data.ops.iterator_ops."""
    iterator: Any = module.__dict__["OwnedIterator"]
    iterator._next_internal = _measured_next(iterator._next_internal)  # of next() and of get_next()
    if hasattr(iterator, "_create_iterator"):
        iterator._create_iterator = _noted_create(iterator._create_iterator)


class TensorFlow(Framework):
    name = "tensorflow"
    threads_prepare = True

    def queued(self) -> float | None:
        """Return None: inside of a graph any thread asks for a batch."""
        return None

    def compilations(self) -> int:
        """Ask dlc's compiler; without it TensorFlow does not say when it traces or compiles."""
        module: Any = sys.modules.get(COMPILER)
        session = module.current() if module is not None else None
        return session.tracing.changes if session is not None else 0

    def settle(self) -> None:
        """Wait for the devices; before TensorFlow 2.9 nothing says when they have done a step."""
        tensorflow: Any = sys.modules.get("tensorflow")
        experimental: Any = getattr(getattr(tensorflow, "test", None), "experimental", None)
        if hasattr(experimental, "sync_devices"):
            experimental.sync_devices()

    def device_memory(self) -> tuple[int, int | None] | None:
        """Return the peak: TensorFlow does not say how much a device has."""
        experimental = self._gpus()
        return (int(experimental.get_memory_info("GPU:0")["peak"]), None) if experimental else None

    def forget_device_peak(self) -> None:
        experimental = self._gpus()
        if experimental:
            experimental.reset_memory_stats("GPU:0")

    def _gpus(self) -> Any:
        """Return the module that knows GPUs' memory, if there are some; TensorFlow before 2.5 has none."""
        tensorflow: Any = sys.modules.get("tensorflow")
        if tensorflow is None or not tensorflow.config.list_logical_devices("GPU"):
            return None
        experimental: Any = tensorflow.config.experimental
        return experimental if hasattr(experimental, "reset_memory_stats") else None


TENSORFLOW = TensorFlow()


def other_threads_seconds() -> float:
    """Return CPU seconds of all threads but the main one."""
    main = threading.main_thread().ident
    return cpu_seconds() - (time.clock_gettime(time.pthread_getcpuclockid(main)) if main else 0.0)


class Loop:
    """One iteration over a dataset, or all that a graph makes."""

    def __init__(self, session: Session, source: Any) -> None:
        self._session, self._meter = session, session.meter_of(source or self)
        self._meter.parallel = is_parallel(source) if source is not None else _first.get("parallel")
        # CPU seconds of the other threads when the last batch came.
        self._spent: float | None = None

    def ask(self, *, settled: bool = False) -> int:
        if not self._session.over:
            self._meter.ask(settled=settled)
            self._session.after_step()
        return 0

    def got(self, batch: Any) -> int:
        if not self._session.over:
            now = other_threads_seconds()
            if self._spent is not None:
                cpu = max(now - self._spent, 0.0)
                self._meter.in_process = self._meter.in_process.plus(Fetches(1, cpu, cpu))
            self._spent = now
            self._meter.got(batch)
        return 0

    def leave(self) -> None:
        self._meter.leave()


def is_parallel(dataset: Any) -> bool:
    """Tell whether a part of the pipeline prepares several elements at a time (num_parallel_calls)."""
    parts, seen = [dataset], 0
    while parts and seen < MOST_PARTS:
        part, seen = parts.pop(), seen + 1
        if "Parallel" in type(part).__name__:
            return True
        parts.extend(part._inputs() if hasattr(part, "_inputs") else ())
    return False


def _noted_create(original: Any) -> Any:
    @functools.wraps(original)
    def noted(self: Any, dataset: Any, *more: Any, **named: Any) -> Any:
        _first.setdefault("parallel", is_parallel(dataset))
        return original(self, dataset, *more, **named)

    return noted


def _measured_next(original: Any) -> Any:
    @functools.wraps(original)
    def measured(self: Any) -> Any:
        session = current_session(TENSORFLOW)
        if session.over:
            return original(self)
        if not sys.modules["tensorflow"].executing_eagerly():
            return _in_graph(original, self, Loop(session, None))
        loop: Loop | None = getattr(self, LOOP, None)
        if loop is None:
            loop = Loop(session, getattr(self, "_dataset", None))
            loop.leave()  # after a `break` too
            setattr(self, LOOP, loop)
        loop.ask()
        try:
            batch = original(self)
        except BaseException:
            loop.leave()
            raise
        loop.got(batch)
        return batch

    return measured


def _in_graph(original: Any, iterator: Any, loop: Loop) -> Any:
    """Add two calls to the graph being traced: when the GPUs have done the last step, and with the batch."""
    tensorflow: Any = sys.modules["tensorflow"]
    # Old versions (2.6) cannot wait for a GPU in a graph: what it still computes then counts as waiting for data.
    sync: Any = getattr(tensorflow.raw_ops, "SyncDevice", None)
    done = []
    for device in tensorflow.config.list_logical_devices("GPU") if sync else ():
        with tensorflow.device(device.name):
            done.append(sync())
    with tensorflow.control_dependencies(done):
        asked = tensorflow.numpy_function(functools.partial(loop.ask, settled=True), [], tensorflow.int64)
    with tensorflow.control_dependencies([asked]):
        batch = original(iterator)
    parts = tensorflow.nest.flatten(batch, expand_composites=True)
    with tensorflow.control_dependencies(parts):
        size = sum(tensorflow.size(part, tensorflow.int64) * part.dtype.size for part in parts)
        answered = tensorflow.numpy_function(lambda bytes_: loop.got(Bytes(bytes_)), [size], tensorflow.int64)
    with tensorflow.control_dependencies([answered]):
        return tensorflow.nest.map_structure(tensorflow.identity, batch, expand_composites=True)


class Bytes:
    """Stands for a batch that stays in the graph."""

    def __init__(self, size: Any) -> None:
        self.nbytes = int(size)
