"""Measures torch.utils.data.DataLoader: the main process's waits, and what fetching costs its workers."""

from __future__ import annotations

import functools
import os
import sys

from dlc_runtime.profile import fetches
from dlc_runtime.profile.resources import Framework
from dlc_runtime.profile.session import current_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# Their imports take tenths of a second and more.
COMPILERS = ("torch._dynamo.utils", "torch._inductor.codecache")
FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")
_file: fetches.WorkerFile | None = None


def patch(module: ModuleType) -> None:
    """Patch `module`, which is torch.utils.data.dataloader."""
    iterator: Any = module.__dict__["_BaseDataLoaderIter"]
    iterator.__next__ = _measured_next(iterator.__next__)
    starter: Any = module.__dict__["_MultiProcessingDataLoaderIter"]
    starter.__init__ = _measured_start(starter.__init__)
    patch_fetchers()


def patch_fetchers() -> None:
    """Patch once in each process: workers that were forked have it already."""
    from torch.utils.data._utils import fetch

    for name in FETCHERS:
        fetcher: Any = getattr(fetch, name)
        if not hasattr(fetcher.fetch, "__wrapped__"):
            fetcher.fetch = _measured_fetch(fetcher.fetch)


class WorkerPatcher:
    """Goes to workers as their first function: those that are started anew inherit neither patches nor variables."""

    def __init__(self, own: Any, folder: str) -> None:
        self.own, self.folder = own, folder

    def __call__(self, worker: int) -> None:
        os.environ[fetches.FOLDER] = self.folder
        patch_fetchers()
        if self.own is not None:
            self.own(worker)


class Torch(Framework):
    name = "torch"

    def settle(self) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def rank(self) -> int | None:
        distributed: Any = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return None

    def compilations(self) -> int:
        """Count what Dynamo and XLA have timed: it grows with every compilation, also of a backward.

        Compilers that were imported count too: dlc's compiler imports them a step before it compiles.
        """
        dynamo: Any = sys.modules.get("torch._dynamo.utils")
        timed = sum(map(len, list(getattr(dynamo, "compilation_time_metrics", {}).values())))
        timed += sum(name in sys.modules for name in COMPILERS)
        xla: Any = sys.modules.get("torch_xla.debug.metrics")
        compiled = xla.metric_data("CompileTime") if xla is not None else None
        return timed + (int(compiled[0]) if compiled else 0)

    def device_memory(self) -> tuple[int, int | None] | None:
        torch: Any = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
            return None
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return int(torch.cuda.max_memory_reserved()), int(total)

    def forget_device_peak(self) -> None:
        """Empty the cache too: eager steps may have left blocks in it that compiled ones do not use."""
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


TORCH = Torch()


def is_worker() -> bool:
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None


def _measured_start(original: Any) -> Any:
    @functools.wraps(original)
    def measured(self: Any, loader: Any) -> None:
        session = None if is_worker() else current_session(TORCH)
        if session is None or session.over:
            original(self, loader)
            return
        own = loader.worker_init_fn
        loader.worker_init_fn = WorkerPatcher(own, session.folder)
        try:
            original(self, loader)
        finally:
            loader.worker_init_fn = own

    return measured


def _measured_next(original: Any) -> Any:
    @functools.wraps(original)
    def measured(self: Any) -> Any:
        session = None if is_worker() else current_session(TORCH)
        if session is None or session.over:
            return original(self)
        meter = session.meter_of(self._dataset)
        if not self._num_yielded:  # after a `break` too
            meter.leave()
        meter.asleep.look(session.folder, meter.workers)
        meter.ask()
        session.after_step()
        try:
            batch = original(self)
        except BaseException:
            meter.leave()
            raise
        workers = {worker.pid for worker in getattr(self, "_workers", ())}
        meter.workers |= workers
        meter.most_workers = max(meter.most_workers, len(workers))
        meter.parallel = meter.most_workers > 1
        meter.got(batch)
        return batch

    return measured


def _measured_fetch(original: Any) -> Any:
    @functools.wraps(original)
    def measured(self: Any, index: Any) -> Any:
        return _in_worker(original, self, index) if is_worker() else _in_process(original, self, index)

    return measured


def _in_worker(original: Any, fetcher: Any, index: Any) -> Any:
    global _file
    folder = os.environ.get(fetches.FOLDER, "")
    if not os.path.isdir(folder):  # enough was measured
        return original(fetcher, index)
    if _file is None or _file.process != os.getpid():
        _file = fetches.WorkerFile(folder)
    _file.begin()
    batch = original(fetcher, index)
    _file.end()
    return batch


def _in_process(original: Any, fetcher: Any, index: Any) -> Any:
    session = current_session(TORCH)
    if session.over:
        return original(fetcher, index)
    fetch = fetches.Fetch()
    batch = original(fetcher, index)
    session.meter_of(fetcher.dataset).add_fetch(fetch.end())
    return batch
