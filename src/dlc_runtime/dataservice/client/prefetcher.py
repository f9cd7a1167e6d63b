"""Moves batches from the servers to the training loop: requests, receives, requests elsewhere.

A thread does it while the training loop computes. A loop that waits for a batch does it itself: to wake another thread
for a small batch would take longer than the batch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import threading
import time
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.client.server_watch import FoundServer, ServerDiscovery, StallWatch
from dlc_runtime.dataservice.client.worker_connection import WorkerConnection
from dlc_runtime.dataservice.errors import DataServiceError, ProtocolError, RefusedError, ServersLostError
from dlc_runtime.dataservice.schedule.requests import RequestQueue
from dlc_runtime.dataservice.wire.frames import BatchRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dlc_runtime.dataservice.client.buffers import BufferPool
    from dlc_runtime.dataservice.client.config import Settings
    from dlc_runtime.dataservice.client.frame_reader import Arrival

LOG = logging.getLogger("dlc.dataservice")
# Between two looks at the clock.
TICK_SECONDS = 0.25
# So long without the training loop, the thread drives.
IDLE_SECONDS = 0.002
# Batches of so many bytes are handed to the training loop before more are read.
TOGETHER_BYTES = 1 << 18
# Until a lost connection is made again.
RETRY_SECONDS = 0.5


class Rate:
    """How many batches come each second, as of the last tick."""

    def __init__(self) -> None:
        self.count, self.each_second, self._since = 0, 0.0, time.monotonic()

    def tick(self, now: float) -> None:
        if now - self._since >= TICK_SECONDS / 2:
            self.each_second, self.count, self._since = self.count / (now - self._since), 0, now


class Prefetcher:
    """Shared by the training loop and one thread, under one lock. Fatal errors come out of `take`."""

    def __init__(self, settings: Settings, servers: Mapping[str, str], token: bytes, buffers: BufferPool) -> None:
        self.settings, self.token, self.buffers = settings, token, buffers
        self.queue = RequestQueue(settings.is_ordered, 0, 1, settings.elsewhere_after)
        self.epoch = -1
        self.connections: dict[int, WorkerConnection] = {}
        # Connection -> the server that it belongs to.
        self.servers: dict[int, str] = {}
        self.found: dict[str, FoundServer] = {}
        # Bytes of a batch, so far.
        self.largest = 0
        self._rate = Rate()
        self.fatal: BaseException | None = None
        self.progressed_at = time.monotonic()
        # When, server, port.
        self._retry: list[tuple[float, str, int]] = []
        self._lock = threading.Lock()
        # Its holder reads the connections.
        self._driver = threading.Lock()
        self._loop_drives = False
        # When the training loop drove last.
        self._driven_at = 0.0
        self._next_tick = 0.0
        self._selector = selectors.DefaultSelector()
        self._wake, self._wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._ended = False
        self.discovery = ServerDiscovery(servers, token, self._add_server)
        self._watch = StallWatch(self.discovery, settings.deadline, self._late_servers, self.fail)
        self._thread = threading.Thread(target=self._run, name="dlc-data-prefetcher", daemon=True)
        self._thread.start()

    def begin(self, epoch: int, ids: Iterable[int], is_complete: bool = True) -> None:
        """Drop what is left of an epoch and start another; `is_complete`: `add` brings no more ids."""
        with self._lock:
            old, self.queue = self.queue, RequestQueue(self.settings.is_ordered, 0, 1, self.settings.elsewhere_after)
            for server in old.owed:
                self.queue.add_server(server)
            self.epoch = epoch
            self.progressed_at = time.monotonic()
            self.queue.is_complete = is_complete
            self.queue.add(ids)
            self._send_requests()

    def window(self) -> int:
        """Return how many ids may be on their way or held."""
        with self._lock:
            return self._find_window()

    def _find_window(self) -> int:
        return self.settings.window(len(self.queue.owed), self.largest, self._rate.each_second)

    def end_ids(self) -> None:
        """Bring no more ids."""
        with self._lock:
            self.queue.is_complete = True
        self._wake_thread()

    def add(self, ids: Iterable[int]) -> None:
        """Bring more ids of the epoch."""
        with self._lock:
            self.queue.add(ids)
            self._send_requests()
        self._wake_thread()

    def take(self) -> tuple[int, Any] | None:
        """Return the next batch with its id; None if there is none left. Raises what went wrong."""
        while True:
            taken = self.take_ready()
            if taken is not None:
                return taken
            with self._lock:
                if self.queue.is_over:
                    return None
            self._drive()

    def take_ready(self) -> tuple[int, Any] | None:
        """Return the next batch if it is here."""
        with self._lock:
            self.raise_fatal()
            queue = self.queue
            id_ = queue.next_id()
            if id_ is None:
                return None
            batch = queue.take(id_)
            # Several requests are one packet.
            if len(queue.waiting) + len(queue.held) <= queue.most // 2:
                self._send_requests()
            return id_, batch

    def raise_fatal(self) -> None:
        """Raise what went wrong."""
        if self.fatal is not None:
            raise self.fatal

    def fail(self, error: BaseException) -> None:
        """End the training loop's wait with an error."""
        with self._lock:
            if self.fatal is None:
                self.fatal = error
        self._wake_thread()

    def close(self) -> None:
        self._ended = True
        self.discovery.close()
        self._watch.close()
        self._wake_thread()
        self._thread.join()
        for connection in self.connections.values():
            connection.close()
        self._selector.close()
        os.close(self._wake)
        os.close(self._wake_write)
        self._wake_write = -1

    def describe_silence(self) -> str:
        """Tell why no server is heard, server by server."""
        return "; ".join(
            self.discovery.silent.get(server, f"{server}: it no longer answers") for server in self.discovery.servers
        )

    def _drive(self) -> None:
        """Wait for one event in the training loop's own thread: no other thread has to wake it for each batch."""
        self._loop_drives = True
        try:
            if not self._driver.acquire(blocking=False):
                self._wake_thread()
                self._driver.acquire()
            try:
                self._step()
            finally:
                self._driver.release()
        finally:
            self._driven_at = time.monotonic()
            self._loop_drives = False

    def _add_server(self, found: FoundServer) -> None:
        """Connect to a server's workers. Called by the discovery's threads."""
        with self._lock:
            before = self.found.get(found.server)
            self.found[found.server] = found
            if before is None or before.ports != found.ports or before.address != found.address:
                self._retry = [item for item in self._retry if item[1] != found.server]
                self._retry += [(0.0, found.server, port) for port in found.ports]
        self._wake_thread()

    def _late_servers(self, seconds: float) -> dict[str, str]:
        """Return the servers that owe the first late id, with their hosts' names. Called by the watch."""
        with self._lock:
            late = self.queue.first_late(time.monotonic(), seconds)
            fds = late.servers if late else ()
            servers = {self.servers[fd] for fd in fds if fd in self.servers}
            return {server: self.found[server].host for server in servers}

    def _wake_thread(self) -> None:
        # It may have ended.
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def _run(self) -> None:
        """Drive while the training loop is busy with something else."""
        try:
            while not self._ended:
                if self._loop_drives or time.monotonic() - self._driven_at < IDLE_SECONDS:
                    time.sleep(IDLE_SECONDS)
                    continue
                with self._driver:
                    if not self._loop_drives:
                        self._step()
        except BaseException as error:
            self.fail(error)

    def _step(self) -> None:
        """Wait for events, for a tick at most, and handle them. By one thread at a time."""
        for key, mask in self._selector.select(TICK_SECONDS):
            if key.fd == self._wake:
                os.read(self._wake, 4096)
                self._next_tick = 0.0
            else:
                self._handle(key.fd, mask)
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            with self._lock:
                self._on_tick(now)

    def _handle(self, fd: int, mask: int) -> None:
        connection = self.connections.get(fd)
        if connection is None:
            return
        try:
            if mask & selectors.EVENT_WRITE:
                with self._lock:
                    connection.flush()
                    self._selector.modify(fd, connection.wanted_events)
            if mask & selectors.EVENT_READ:
                was_open = connection.is_open
                self._receive(fd, connection)
                while connection.has_more:
                    self._receive(fd, connection)
                if connection.is_open and not was_open:
                    with self._lock:
                        self.queue.add_server(fd)
                        self.progressed_at = time.monotonic()
                        self._send_requests()
        except (OSError, ProtocolError) as error:
            with self._lock:
                self._drop(fd, error)

    def _receive(self, fd: int, connection: WorkerConnection) -> None:
        """Take what came: small batches under one lock, a large one is handed over at once."""
        together: list[Arrival] = []
        size = 0
        try:
            for arrived in connection.receive():
                together.append(arrived)
                size += arrived.size
                if size >= TOGETHER_BYTES:
                    self._add_batches(fd, together)
                    together, size = [], 0
        finally:
            if together:
                self._add_batches(fd, together)

    def _add_batches(self, fd: int, together: list[Arrival]) -> None:
        with self._lock:
            self.progressed_at = time.monotonic()
            for arrived in together:
                if arrived.epoch != self.epoch:
                    self.queue.owed.get(fd, {}).pop(arrived.id, None)
                    continue
                self.largest = max(self.largest, arrived.size)
                self._rate.count += 1
                self.queue.add_answer(fd, arrived.id, arrived.batch, self.progressed_at)

    def _send_requests(self) -> None:
        """Send what is to be requested now. Under the lock."""
        queue = self.queue
        queue.most = self._find_window()
        queue.most_each = max(2, -(-queue.most // max(1, len(queue.owed))))
        requests: dict[int, bytearray] = {}
        for server, id_ in queue.next_requests(time.monotonic()):
            requests.setdefault(server, bytearray()).extend(BatchRequest(self.epoch, id_).packed())
        for server, text in requests.items():
            connection = self.connections[server]
            try:
                connection.send_requests(text)
                if connection.wants_to_write:
                    self._selector.modify(server, connection.wanted_events)
            except OSError:
                # The prefetcher's thread notices, and only it closes: the number of a closed socket is soon another's.
                continue

    def _on_tick(self, now: float) -> None:
        """Connect again, request late batches elsewhere, lose patience. Under the lock."""
        self._rate.tick(now)
        due = [item for item in self._retry if item[0] <= now]
        self._retry = [item for item in self._retry if item[0] > now]
        for _, server, port in due:
            self._connect(server, port)
        self._send_requests()
        self.fatal = self.fatal or self.discovery.fatal
        silent = now - max(self.progressed_at, self.discovery.answered_at)
        waits = self.queue.next_id() is None and not self.queue.is_empty
        if waits and not self.fatal and silent > self.settings.patience:
            self.fatal = ServersLostError(
                f"no data server was heard of for {silent:.0f} s while batches are waited for:"
                f" {self.describe_silence()}"
            )

    def _connect(self, server: str, port: int) -> None:
        found = self.found.get(server)
        if found is None or port not in found.ports:
            # The server was started anew and has other workers.
            return
        try:
            connection = WorkerConnection(found.address, port, self.token, self.buffers, self.settings.most_batch_bytes)
        except OSError:
            self._retry.append((time.monotonic() + RETRY_SECONDS, server, port))
            self.discovery.look_again(server)
            return
        fd = connection.sock.fileno()
        self.connections[fd], self.servers[fd] = connection, server
        self._selector.register(fd, connection.wanted_events)

    def _drop(self, fd: int, error: Exception) -> None:
        """Request a lost worker's batches elsewhere. Under the lock."""
        connection, server = self.connections.pop(fd), self.servers.pop(fd)
        self._selector.unregister(fd)
        connection.close()
        if connection.is_open:
            LOG.warning("data service: lost a worker of %s (%s); what it owes is asked elsewhere", server, error)
        if isinstance(error, RefusedError):
            self.discovery.silent[server] = str(error)
        self._retry.append((time.monotonic() + (0.0 if connection.is_open else RETRY_SECONDS), server, connection.port))
        self.discovery.look_again(server)
        cause = self.queue.drop_server(fd)
        if cause is not None and self.fatal is None:
            self.fatal = DataServiceError(
                f"batch {cause} of epoch {self.epoch} ended several workers that made it, last on"
                f" {server} ({error}); a crash in the user's code or too little memory: see that host's log"
            )
        self._send_requests()
