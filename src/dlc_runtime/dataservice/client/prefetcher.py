"""Moves batches from the servers to the training loop: asks, receives, asks elsewhere.

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

from dlc_runtime.dataservice.client.server_watch import Found, ServerDiscovery, StallWatch
from dlc_runtime.dataservice.client.worker_connection import Link
from dlc_runtime.dataservice.errors import DataServiceError, ProtocolError, RefusedError, ServersLostError
from dlc_runtime.dataservice.schedule.requests import RequestQueue
from dlc_runtime.dataservice.wire.frames import BatchRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dlc_runtime.dataservice.client.buffers import Pool
    from dlc_runtime.dataservice.client.config import Settings

LOG = logging.getLogger("dlc.dataservice")
TICK = 0.25  # seconds between two looks at the clock
LEFT_ALONE = 0.002  # seconds without the training loop after which the thread drives
RETRY = 0.5  # seconds until a lost connection is made again


class Rate:
    """How many batches come each second, as of the last tick."""

    def __init__(self) -> None:
        self.count, self.each_second, self._since = 0, 0.0, time.monotonic()

    def tick(self, now: float) -> None:
        if now - self._since >= TICK / 2:
            self.each_second, self.count, self._since = self.count / (now - self._since), 0, now


class Pump:
    """Shared by the training loop and one thread, under one lock. Fatal errors come out of `take`."""

    def __init__(self, settings: Settings, servers: Mapping[str, str], token: bytes, pool: Pool) -> None:
        self.settings, self.token, self.pool = settings, token, pool
        self.queue = RequestQueue(settings.ordered, 0, 1, settings.elsewhere_after)
        self.epoch = -1
        self.links: dict[int, Link] = {}
        self.homes: dict[int, str] = {}  # link -> the server it belongs to
        self.found: dict[str, Found] = {}
        self.largest = 0  # bytes of a batch, so far
        self._rate = Rate()
        self.fatal: BaseException | None = None
        self.progressed = time.monotonic()
        self._retry: list[tuple[float, str, int]] = []  # when, server, port
        self._lock = threading.Lock()
        self._driver = threading.Lock()  # who holds it reads the connections
        self._loop_drives = False
        self._driven = 0.0  # when the training loop drove last
        self._tick = 0.0
        self._selector = selectors.DefaultSelector()
        self._wake, self._wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._ended = False
        self.discovery = ServerDiscovery(servers, token, self._server_found)
        self._watch = StallWatch(self.discovery, settings.deadline, self._late_servers, self.fail)
        self._thread = threading.Thread(target=self._run, name="dlc-data-pump", daemon=True)
        self._thread.start()

    def begin(self, epoch: int, ids: Iterable[int], is_complete: bool = True) -> None:
        """Drop what is left of an epoch and start another; `is_complete`: `add` brings no more ids."""
        with self._lock:
            old, self.queue = self.queue, RequestQueue(self.settings.ordered, 0, 1, self.settings.elsewhere_after)
            for server in old.owed:
                self.queue.add_server(server)
            self.epoch = epoch
            self.progressed = time.monotonic()
            self.queue.is_complete = is_complete
            self.queue.add(ids)
            self._ask()

    def wanted(self) -> int:
        """How many ids may be on their way or held."""
        with self._lock:
            return self._window()

    def _window(self) -> int:
        return self.settings.window(len(self.queue.owed), self.largest, self._rate.each_second)

    def complete(self) -> None:
        """There will be no more ids."""
        with self._lock:
            self.queue.is_complete = True
        self._kick()

    def add(self, ids: Iterable[int]) -> None:
        """More ids of the epoch."""
        with self._lock:
            self.queue.add(ids)
            self._ask()
        self._kick()

    def take(self) -> tuple[int, Any] | None:
        """The next batch with its id; None when there is none left. Raises what went wrong."""
        while True:
            taken = self.take_ready()
            if taken is not None:
                return taken
            with self._lock:
                if self.queue.is_over:
                    return None
            self._drive_here()

    def take_ready(self) -> tuple[int, Any] | None:
        """The next batch if it is here."""
        with self._lock:
            self.check()
            queue = self.queue
            id_ = queue.next_id()
            if id_ is None:
                return None
            batch = queue.take(id_)
            if len(queue.waiting) + len(queue.held) <= queue.most // 2:  # several requests are one packet
                self._ask()
            return id_, batch

    def check(self) -> None:
        """Raises what went wrong."""
        if self.fatal is not None:
            raise self.fatal

    def fail(self, error: BaseException) -> None:
        """End the training loop's wait with an error."""
        with self._lock:
            if self.fatal is None:
                self.fatal = error
        self._kick()

    def close(self) -> None:
        self._ended = True
        self.discovery.close()
        self._watch.close()
        self._kick()
        self._thread.join()
        for link in self.links.values():
            link.close()
        self._selector.close()
        os.close(self._wake)
        os.close(self._wake_write)
        self._wake_write = -1

    def describe_silence(self) -> str:
        """Why no server is heard, server by server."""
        return "; ".join(
            self.discovery.why.get(server, f"{server}: it no longer answers") for server in self.discovery.servers
        )

    def _drive_here(self) -> None:
        """Wait for one event in the training loop's own thread: no other thread has to wake it for each batch."""
        self._loop_drives = True
        try:
            if not self._driver.acquire(blocking=False):
                self._kick()
                self._driver.acquire()
            try:
                self._step()
            finally:
                self._driver.release()
        finally:
            self._driven = time.monotonic()
            self._loop_drives = False

    def _server_found(self, found: Found) -> None:
        """From the discovery's threads."""
        with self._lock:
            before = self.found.get(found.server)
            self.found[found.server] = found
            if before is None or before.ports != found.ports or before.address != found.address:
                self._retry = [item for item in self._retry if item[1] != found.server]
                self._retry += [(0.0, found.server, port) for port in found.ports]
        self._kick()

    def _late_servers(self, seconds: float) -> dict[str, str]:
        """Servers that owe the first late id, with their hosts' names. From the watch's thread."""
        with self._lock:
            late = self.queue.first_late(time.monotonic(), seconds)
            servers = {self.homes[link] for link in late.servers if link in self.homes} if late else set()
            return {server: self.found[server].host for server in servers}

    def _kick(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._wake_write, b".")

    def _run(self) -> None:
        """Drive while the training loop is busy with something else."""
        try:
            while not self._ended:
                if self._loop_drives or time.monotonic() - self._driven < LEFT_ALONE:
                    time.sleep(LEFT_ALONE)
                    continue
                with self._driver:
                    if not self._loop_drives:
                        self._step()
        except BaseException as error:
            self.fail(error)

    def _step(self) -> None:
        """Wait for events, for TICK at most, and handle them. By one thread at a time."""
        for key, mask in self._selector.select(TICK):
            if key.fd == self._wake:
                os.read(self._wake, 4096)
                self._tick = 0.0
            else:
                self._handle(key.fd, mask)
        now = time.monotonic()
        if now >= self._tick:
            self._tick = now + TICK
            with self._lock:
                self._clock(now)

    def _handle(self, fd: int, mask: int) -> None:
        link = self.links.get(fd)
        if link is None:
            return
        try:
            if mask & selectors.EVENT_WRITE:
                with self._lock:
                    link.flush()
                    self._selector.modify(fd, self._events(link))
            if mask & selectors.EVENT_READ:
                was_open = link.is_open
                for arrived in link.receive():
                    self._arrived(fd, arrived)
                while link.has_more:
                    for arrived in link.receive():
                        self._arrived(fd, arrived)
                if link.is_open and not was_open:
                    with self._lock:
                        self.queue.add_server(fd)
                        self.progressed = time.monotonic()
                        self._ask()
        except (OSError, ProtocolError) as error:
            with self._lock:
                self._lose(fd, error)

    def _arrived(self, fd: int, arrived: Any) -> None:
        with self._lock:
            self.progressed = time.monotonic()
            if arrived.epoch != self.epoch:
                self.queue.owed.get(fd, {}).pop(arrived.id, None)
                return
            self.largest = max(self.largest, arrived.size)
            self._rate.count += 1
            self.queue.add_answer(fd, arrived.id, arrived.batch, self.progressed)

    def _ask(self) -> None:
        """Send what is to be asked now. Under the lock."""
        queue = self.queue
        queue.most = self._window()
        queue.most_each = max(2, -(-queue.most // max(1, len(queue.owed))))
        requests: dict[int, bytearray] = {}
        for server, id_ in queue.next_requests(time.monotonic()):
            requests.setdefault(server, bytearray()).extend(BatchRequest(self.epoch, id_).packed())
        for server, text in requests.items():
            link = self.links[server]
            try:
                link.ask(text)
                if link.wants_to_write:
                    self._selector.modify(server, self._events(link))
            except OSError:
                continue  # the pump's thread notices, and only it closes: a number of a closed socket is soon another's

    def _clock(self, now: float) -> None:
        """What time alone brings about. Under the lock."""
        self._rate.tick(now)
        due = [item for item in self._retry if item[0] <= now]
        self._retry = [item for item in self._retry if item[0] > now]
        for _, server, port in due:
            self._connect(server, port)
        self._ask()
        self.fatal = self.fatal or self.discovery.fatal
        silent = now - max(self.progressed, self.discovery.answered)
        waits = self.queue.next_id() is None and not self.queue.is_empty
        if waits and not self.fatal and silent > self.settings.patience:
            self.fatal = ServersLostError(
                f"no data server was heard of for {silent:.0f} s while batches are waited for:"
                f" {self.describe_silence()}"
            )

    def _connect(self, server: str, port: int) -> None:
        found = self.found.get(server)
        if found is None or port not in found.ports:
            return  # the server was started anew and has other workers
        try:
            link = Link(found.address, port, self.token, self.pool, self.settings.most_batch_bytes)
        except OSError:
            self._retry.append((time.monotonic() + RETRY, server, port))
            self.discovery.look_again(server)
            return
        fd = link.sock.fileno()
        self.links[fd], self.homes[fd] = link, server
        self._selector.register(fd, self._events(link))

    def _events(self, link: Link) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if link.wants_to_write else 0)

    def _lose(self, fd: int, error: Exception) -> None:
        """A worker is gone: what it owes is asked elsewhere. Under the lock."""
        link, server = self.links.pop(fd), self.homes.pop(fd)
        self._selector.unregister(fd)
        link.close()
        if link.is_open:
            LOG.warning("data service: lost a worker of %s (%s); what it owes is asked elsewhere", server, error)
        if isinstance(error, RefusedError):
            self.discovery.why[server] = str(error)
        self._retry.append((time.monotonic() + (0.0 if link.is_open else RETRY), server, link.port))
        self.discovery.look_again(server)
        cause = self.queue.drop_server(fd)
        if cause is not None and self.fatal is None:
            self.fatal = DataServiceError(
                f"batch {cause} of epoch {self.epoch} ended several workers that made it, last on"
                f" {server} ({error}); a crash in the user's code or too little memory: see that host's log"
            )
        self._ask()
