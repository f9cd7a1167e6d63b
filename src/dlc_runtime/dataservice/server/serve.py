"""`serve`: the public entry on a data host. Starts the control process and the workers, and replaces lost ones."""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import time
from multiprocessing import connection
from typing import TYPE_CHECKING

from dlc_channel import keys
from dlc_runtime import cluster_facts, host
from dlc_runtime.dataservice.errors import DataServiceError, SettingError
from dlc_runtime.dataservice.server import batch_source, control_server, sample_prints, worker
from dlc_runtime.dataservice.server.worker_status import StatusTable
from dlc_runtime.dataservice.wire import addresses, frames, tls
from dlc_runtime.dataservice.wire.control_rpc import require_packages
from dlc_runtime.host import until_signalled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
# "0": no samples are drawn for the comparison with other data hosts.
COMPARE = "DLC_DATA_COMPARE"
# For the control process to import gRPC and to listen, before it is said.
LISTEN_SECONDS = 60.0
# Of one worker in a row, without a batch between, that end the server.
FAILED_STARTS = 5
# Before a worker that did not make a batch is started again.
PAUSE_SECONDS = 0.5


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
    container may use. Raises SettingError, MissingPackageError, and DataServiceError if it cannot listen or the
    workers do not start.
    """
    require_packages()
    tls.check_settings(os.environ, token)
    source = batch_source.make_source(data, collate, batch_size, shuffle, drop_last, seed, worker_init)
    workers = count_workers(workers, data)
    job = cluster_facts.read()
    listen = address or addresses.own_address(job.me.address, job.interface)
    bound, key = addresses.control_port(port), keys.data_key(os.environ, token)
    with Server(source, workers, job.host, listen, bound, key, most_batch_bytes) as server:
        server.run()


def count_workers(asked: int | None, data: Any, groups: str = host.GROUPS) -> int:
    """Return how many processes to start: more of them than the container's CPUs would wait for each other."""
    if asked is None:
        asked = getattr(data, "num_workers", 0) or math.ceil(host.usable(groups))
    if asked < 1:
        raise SettingError(f"serve: workers: expected a number of at least 1, found {asked!r}")
    return asked


class Server:
    """The processes of one data host."""

    def __init__(
        self,
        source: batch_source.BatchSource,
        workers: int,
        host: str,
        listen: str,
        port: int,
        token: bytes,
        most_batch: int,
    ) -> None:
        self.source, self.host, self.listen, self.port = source, host, listen, port
        self.token, self.most_batch = token, most_batch
        self.table = StatusTable(workers)
        # The dataset is shared, not copied or pickled.
        self.context: Any = multiprocessing.get_context("fork")
        self.listeners = [addresses.open_listener(listen) for _ in range(workers)]
        self.stacks = [os.memfd_create(f"dlc-stacks-{slot}") for slot in range(workers)]
        self.configs = [
            worker.WorkerConfig(slot, workers, host, listener, stacks)
            for slot, (listener, stacks) in enumerate(zip(self.listeners, self.stacks))
        ]
        self.processes: list[Any] = [None] * workers
        self.control: Any = None
        self.prints: list[Any] = []
        self.failed = [0] * workers
        self.made = [0] * workers
        self.wake, self._wake_write = os.pipe()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Serve until the end. Raises DataServiceError if this host cannot."""
        with until_signalled(self.stop):
            # Made once, before the processes are forked.
            tls.enabled_identity(self.token)
            # Before the workers are there: what worker_init opens may be one worker's alone.
            if os.environ.get(COMPARE) != "0":
                self.prints = sample_prints.draw_samples(self.context, self.source, self.table.slots, self.wake)
            self.control = self._start_control()
            for slot in range(self.table.slots):
                self._start(slot)
            LOG.info("data service: %s:%d, %d workers", self.listen, self.port, self.table.slots)
            # While another of its group serves.
            cluster_facts.tell_launcher("DLC_TAKEOVER_FILE", "others can take over")
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
        """Wait for the end of something; return whether it is that of the server."""
        sentinels = {process.sentinel: slot for slot, process in enumerate(self.processes)}
        ready = connection.wait([self.wake, self.control.sentinel, *sentinels])
        if self.wake in ready:
            return True
        if self.control.sentinel in ready:
            # Its exit code is known a moment later than its end.
            self.control.join()
            LOG.warning("data service: the control process ended with %s; a new one starts", self.control.exitcode)
            self.control = self._start_control()
        for sentinel in ready:
            if sentinel in sentinels:
                self._replace(sentinels[sentinel])
        return False

    def _replace(self, slot: int) -> None:
        process, made = self.processes[slot], self.table.read(slot).batches
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
            time.sleep(PAUSE_SECONDS)
        self._start(slot)

    def _start(self, slot: int) -> None:
        arguments = (self.source, self.configs[slot], self.table, self.token, self.most_batch, os.getpid())
        process = self.context.Process(target=worker.run_worker, args=arguments, name=f"dlc-data-{slot}", daemon=True)
        process.start()
        self.processes[slot] = process

    def _start_control(self) -> Any:
        facts = {
            "host": self.host,
            "workers": [listener.getsockname()[1] for listener in self.listeners],
            "data": self.source.facts,
            "prints": self.prints,
            "most_batch": self.most_batch,
        }
        ours, theirs = self.context.Pipe()
        calls = control_server.ControlCalls(self.token, facts, self.table, self.stacks, self.stop)
        where = addresses.join_host_port(self.listen, self.port)
        arguments = (theirs, where, calls, os.getpid())
        process = self.context.Process(target=control_server.run_control, args=arguments, daemon=True)
        process.start()
        theirs.close()
        failure = self._start_failure(process, ours)
        if failure is not None:
            process.kill()
            process.join()
            said = f"the data service on {self.host} cannot {failure.what}: {failure.why}"
            raise DataServiceError(f"{said}; {failure.remedy}" if failure.remedy else said)
        return process

    def _start_failure(self, process: Any, said: Any) -> control_server.StartFailure | None:
        """Return why a control process does not serve; None if it listens."""
        starting = "start its control process"
        # If the process ends, `poll` returns at once.
        for _ in range(10):
            if said.poll(LISTEN_SECONDS):
                break
            LOG.warning("data service: no control process yet")
        else:
            remedy = "see what else takes this host's processors"
            return control_server.StartFailure(starting, "it does not listen", remedy)
        try:
            answer: control_server.StartFailure | None = said.recv()
        except EOFError:
            process.join()
            why = f"it ended with {process.exitcode} before it listened"
            return control_server.StartFailure(starting, why, "its traceback, if it had one, is above")
        return answer
