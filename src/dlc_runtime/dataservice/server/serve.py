"""`serve`: the public entry on a data host. Starts the control process and the workers, and starts lost ones again."""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import time
from multiprocessing import connection
from typing import TYPE_CHECKING

from dlc_runtime import cluster_facts, usable_cpus
from dlc_runtime.dataservice.errors import DataServiceError, SettingError
from dlc_runtime.dataservice.server import control, source, worker
from dlc_runtime.dataservice.server.board import Board
from dlc_runtime.dataservice.wire import address as addresses
from dlc_runtime.dataservice.wire import frames, tls
from dlc_runtime.dataservice.wire import token as tokens
from dlc_runtime.dataservice.wire.control import require
from dlc_runtime.usable_cpus import until_signalled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
LISTENS_WITHIN = 60.0  # seconds for the control process to import gRPC and to listen, before it is said
FAILED_STARTS = 5  # of one worker, one after the other without a batch between, that end the server
PAUSE = 0.5  # seconds before a worker that did not make a batch is started again


def serve(
    data: Any,
    collate: Callable[[Any], Any] | None = None,
    *,
    batch_size: int | None = 1,
    shuffle: bool = False,
    drop_last: bool = False,
    seed: int = 0,
    workers: int | None = None,
    worker_init: Callable[[int], None] | None = None,
    address: str | None = None,
    port: int | None = None,
    token: str | None = None,
    most_batch_bytes: int = frames.MOST_BATCH,
) -> None:
    """Make batches for the training hosts until this process is told to end (SIGTERM), or a consumer stops the servers.

    `data` is a dataset with `__len__` and `__getitem__`, or a DataLoader over one, whose own settings then count. The
    arguments have to be the same on every data host. `workers`: processes, by default one for each CPU that this
    container may use. Raises SettingError, MissingPackageError, and DataServiceError where it cannot listen or the
    workers do not start.
    """
    require()
    tls.check(os.environ, token)
    made = source.of(data, collate, batch_size, shuffle, drop_last, seed, worker_init)
    workers = workers_of(workers, data)
    job = cluster_facts.read()
    listen = address or addresses.own(job.me.address, job.interface)
    bound = addresses.port(port)
    with Server(made, workers, job.host, listen, bound, tokens.derive(os.environ, token), most_batch_bytes) as server:
        server.run()


def workers_of(asked: int | None, data: Any, groups: str = usable_cpus.GROUPS) -> int:
    """How many processes. A container's quota counts: more of them than it has CPUs wait for each other."""
    if asked is None:
        asked = getattr(data, "num_workers", 0) or math.ceil(usable_cpus.usable(groups))
    if asked < 1:
        raise SettingError(f"serve: workers: expected a number of at least 1, found {asked!r}")
    return asked


class Server:
    """The processes of one data host."""

    def __init__(
        self, made: source.Source, workers: int, host: str, listen: str, port: int, token: bytes, most_batch: int
    ) -> None:
        self.source, self.host, self.listen, self.port = made, host, listen, port
        self.token, self.most_batch = token, most_batch
        self.board = Board(workers)
        self.context: Any = multiprocessing.get_context("fork")  # the dataset is shared, not copied or pickled
        self.listeners = [addresses.listener(listen) for _ in range(workers)]
        self.stacks = [os.memfd_create(f"dlc-stacks-{slot}") for slot in range(workers)]
        self.places = [
            worker.Place(slot, workers, host, listener, stacks)
            for slot, (listener, stacks) in enumerate(zip(self.listeners, self.stacks))
        ]
        self.processes: list[Any] = [None] * workers
        self.control: Any = None
        self.failed = [0] * workers
        self.made = [0] * workers
        self.wake, self._wake_write = os.pipe()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Until the end. Raises DataServiceError where this host cannot serve."""
        with until_signalled(self.stop):
            tls.of(self.token)  # made once, before the processes are forked
            self.control = self._start_control()
            for slot in range(self.board.slots):
                self._start(slot)
            LOG.info("data service: %s:%d, %d workers", self.listen, self.port, self.board.slots)
            cluster_facts.tell_launcher("DLC_TAKEOVER_FILE", "others can take over")  # while one of its group serves
            cluster_facts.tell_that_this_serves()
            while not self._wait():
                pass

    def close(self) -> None:
        """End every process at once: a worker has no state worth saving."""
        for process in [self.control, *self.processes]:
            if process is not None:
                process.kill()
                process.join()
        for listener in self.listeners:
            listener.close()
        for fd in (*self.stacks, self.wake, self._wake_write):
            with contextlib.suppress(OSError):
                os.close(fd)

    def stop(self) -> None:
        """Let `run` return; from a signal handler or the control process."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def _wait(self) -> bool:
        """Wait for the end of something; whether it is that of the server."""
        sentinels = {process.sentinel: slot for slot, process in enumerate(self.processes)}
        ready = connection.wait([self.wake, self.control.sentinel, *sentinels])
        if self.wake in ready:
            return True
        if self.control.sentinel in ready:
            self.control.join()  # its exit code is known a moment later than its end
            LOG.warning("data service: the control process ended with %s; a new one starts", self.control.exitcode)
            self.control = self._start_control()
        for sentinel in ready:
            if sentinel in sentinels:
                self._replace(sentinels[sentinel])
        return False

    def _replace(self, slot: int) -> None:
        process, made = self.processes[slot], self.board.read(slot).batches
        process.join()
        self.failed[slot] = 0 if made > self.made[slot] else self.failed[slot] + 1
        self.made[slot] = made
        LOG.warning("data service: worker %d ended with %s; a new one starts", slot, process.exitcode)
        if self.failed[slot] >= FAILED_STARTS and process.exitcode == 1:
            raise DataServiceError(
                f"worker {slot} of the data service on {self.host} ended {self.failed[slot]} times with exit code 1"
                " before it made a batch; its traceback is above; see worker_init and the imports of the dataset"
            )
        if self.failed[slot]:
            time.sleep(PAUSE)
        self._start(slot)

    def _start(self, slot: int) -> None:
        arguments = (self.source, self.places[slot], self.board, self.token, self.most_batch, os.getpid())
        process = self.context.Process(target=worker.run, args=arguments, name=f"dlc-data-{slot}", daemon=True)
        process.start()
        self.processes[slot] = process

    def _start_control(self) -> Any:
        facts = {
            "host": self.host,
            "workers": [listener.getsockname()[1] for listener in self.listeners],
            "data": self.source.facts,
            "most_batch": self.most_batch,
        }
        ours, theirs = self.context.Pipe()
        calls = control.Control(self.token, facts, self.board, self.stacks, self.stop)
        where = addresses.joined(self.listen, self.port)
        process = self.context.Process(target=control.run, args=(theirs, where, calls, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        unable = self._unable(process, ours)
        if unable is not None:
            process.kill()
            process.join()
            said = f"the data service on {self.host} cannot {unable.what}: {unable.why}"
            raise DataServiceError(f"{said}; {unable.remedy}" if unable.remedy else said)
        return process

    def _unable(self, process: Any, said: Any) -> control.Unable | None:
        """Why a control process does not serve; None: it listens."""
        starting = "start its control process"
        for _ in range(10):  # its end is told at once
            if said.poll(LISTENS_WITHIN):
                break
            LOG.warning("data service: no control process yet")
        else:
            return control.Unable(starting, "it does not listen", "see what else takes this host's processors")
        try:
            answer: control.Unable | None = said.recv()
        except EOFError:
            process.join()
            why = f"it ended with {process.exitcode} before it listened"
            return control.Unable(starting, why, "its traceback, if it had one, is above")
        return answer
