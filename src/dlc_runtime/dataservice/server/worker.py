"""A worker process: makes the batches that consumers ask for and sends them over its own sockets.

One thread: while a batch is made nobody is answered, and liveness is the control process's to tell.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import selectors
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from dlc_channel.channel import PendingConnections
from dlc_runtime.dataservice.errors import BatchTooLargeError, ProtocolError, RefusedError
from dlc_runtime.dataservice.server.batch_source import BatchMaker
from dlc_runtime.dataservice.server.consumer_connection import ConsumerConnection
from dlc_runtime.dataservice.wire import addresses, serialization

if TYPE_CHECKING:
    from typing import Any

    from dlc_channel.channel import Channel
    from dlc_runtime.dataservice.server.batch_source import BatchSource
    from dlc_runtime.dataservice.server.worker_status import StatusTable

MOST_CONNECTIONS = 4096
# After making batches for so long, it looks for new connections and requests.
LOOK_SECONDS = 0.05
# For so long a consumer's proof may wait for a batch to be made, and not be late.
SLOW_SECONDS = 1.0
# Batches that are made so fast leave together, and wait for each other for so long.
QUICK_SECONDS = 0.0005
# Of one message.
MOST_TOGETHER_BYTES = 1 << 19
# After so many quick batches the next one is expected to be quick. Longer than a message: the batch that ends a worker
# is among the first that the next worker is asked for, and alone it is the one that is found guilty.
QUICK_RUN = 16
# Writes the worker's stacks.
STACKS_SIGNAL = signal.SIGRTMIN + 5
_PR_SET_PDEATHSIG = 1


class WorkerConfig(NamedTuple):
    """What a worker and its successor have to know beside the source."""

    slot: int
    workers: int
    host: str
    listener: socket.socket
    stacks: int


def run_worker(
    source: BatchSource, config: WorkerConfig, table: StatusTable, token: bytes, most_batch: int, parent: int
) -> None:
    """Live as a worker; end with the parent."""
    die_with_parent(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Ctrl-C reaches the whole group: the parent ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(STACKS_SIGNAL, file=config.stacks, all_threads=True)
    table.start_worker(config.slot, os.getpid())
    act_as_torch_worker(source, config.slot, config.workers)
    Worker(source, config, table, token, most_batch).run()


def die_with_parent(parent: int) -> None:
    """End with the parent process, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def act_as_torch_worker(source: BatchSource, slot: int, workers: int) -> None:
    """Do as a DataLoader's worker: tell get_worker_info() a number, use one thread, call the init function."""
    torch = sys.modules.get("torch")
    if torch is not None:
        from torch.utils.data._utils import worker as torch_worker

        torch.set_num_threads(1)
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=slot, num_workers=workers, seed=source.sampling.seed, dataset=source.dataset
        )
        _keep_memory_private(torch)
    if source.worker_init is not None:
        source.worker_init(slot)


def _keep_memory_private(torch: Any) -> None:
    """Keep torch's default_collate off /dev/shm, through which a main process would read the batch.

    Here it leaves by a socket, and in many containers /dev/shm has less room than the workers' batches take.
    """
    # Old versions lack it.
    storage: Any = getattr(torch, "UntypedStorage", None)
    if hasattr(storage, "_new_shared"):
        storage._new_shared = classmethod(lambda kind, size, *, device="cpu": kind(size, device=device))


class Worker:
    """Accepts consumers, and makes one batch after the other for them."""

    def __init__(
        self, source: BatchSource, config: WorkerConfig, table: StatusTable, token: bytes, most_batch: int
    ) -> None:
        self.config, self.table, self.token, self.most_batch = config, table, token, most_batch
        self.maker = BatchMaker(source)
        # Quick batches since the last slow one.
        self.quick_run = 0
        self.connections: dict[int, ConsumerConnection] = {}
        self.pending = PendingConnections()
        self.selector = selectors.DefaultSelector()
        self.selector.register(config.listener, selectors.EVENT_READ)
        config.listener.setblocking(False)

    def run(self) -> None:
        while True:
            self.take_turn()

    def take_turn(self) -> None:
        """Look for connections and requests, then make batches for a while."""
        busy = any(conn.requests and not conn.is_full for conn in self.connections.values())
        self.wait_for_events(0.0 if busy else 1.0)
        begun = time.monotonic()
        while self.answer_consumers() and time.monotonic() < begun + LOOK_SECONDS:
            pass
        # Nobody could prove anything while a slow batch was made.
        if (worked := time.monotonic() - begun) > SLOW_SECONDS:
            self.pending.excuse(worked)

    def answer_consumers(self) -> bool:
        """Answer each consumer that waits once; return whether there was any."""
        found = False
        for fd, conn in [*self.connections.items()]:
            if conn.requests and not conn.is_full:
                found = True
                self.run_step(fd, conn, self.answer)
        return found

    def wait_for_events(self, seconds: float) -> None:
        """Wait for events and handle them."""
        for key, mask in self.selector.select(seconds):
            if key.fileobj is self.config.listener:
                # All that wait: the next look may be a slow batch away.
                for _ in range(addresses.BACKLOG):
                    if not self.accept():
                        break
            elif key.fd in self.connections:
                self.run_step(key.fd, self.connections[key.fd], ConsumerConnection.transfer, mask)
        for channel in self.pending.overdue(time.monotonic()):
            self.drop(channel.fileno(), malformed=1)

    def accept(self) -> bool:
        """Seat a newcomer; return whether another one may wait."""
        try:
            sock, address = self.config.listener.accept()
        except BlockingIOError:
            return False
        except OSError:
            # No descriptor is left: one who has proved nothing makes room.
            self.drop_stranger(self.pending.to_evict())
            return False
        if len(self.connections) >= MOST_CONNECTIONS:
            sock.close()
            return True
        addresses.keep_alive(sock)
        try:
            conn = ConsumerConnection(sock, self.token)
        except (OSError, ProtocolError) as error:
            sock.close()
            self.table.add_strangers(self.config.slot, malformed=int(isinstance(error, ProtocolError)))
            return True
        fd = conn.sock.fileno()
        self.connections[fd] = conn
        self.selector.register(fd, selectors.EVENT_READ)
        self.drop_stranger(self.pending.add(conn.channel, str(address[0])))
        return True

    def drop_stranger(self, channel: Channel | None) -> None:
        if channel is not None:
            self.drop(channel.fileno(), malformed=1)

    def run_step(self, fd: int, conn: ConsumerConnection, step: object, *arguments: object) -> None:
        """Do a step of a connection; what goes wrong there ends that connection and nothing else."""
        try:
            step(conn, *arguments)  # type: ignore[operator]
        except RefusedError:
            self.drop(fd, refused=1)
        except ProtocolError:
            self.drop(fd, malformed=1)
        except OSError:
            self.drop(fd)
        else:
            if conn.is_authenticated:
                self.pending.discard(conn.channel)
            if conn.events != conn.wanted_events:
                conn.events = conn.wanted_events
                self.selector.modify(fd, conn.events)

    def drop(self, fd: int, refused: int = 0, malformed: int = 0) -> None:
        conn = self.connections.pop(fd)
        self.pending.discard(conn.channel)
        self.selector.unregister(fd)
        conn.sock.close()
        if refused or malformed:
            self.table.add_strangers(self.config.slot, refused=refused, malformed=malformed)

    def answer(self, conn: ConsumerConnection) -> None:
        """Answer the oldest request; with it those after it while their batches are small and quickly made."""
        until = time.monotonic() + QUICK_SECONDS
        while self.add_answer(conn, until):
            pass
        conn.send([], [])

    def add_answer(self, conn: ConsumerConnection, until: float) -> bool:
        """Make the batch of the oldest request, or say why there is none; return whether another one may join it."""
        request = conn.requests.popleft()
        indices: list[int] = []
        made = 0, 0
        begun = time.monotonic()
        self.table.begin_batch(self.config.slot, *request)
        try:
            indices = self.maker.indices(*request)
            packed = serialization.pack(self.maker.batch(*request, indices))
            if packed.size > self.most_batch:
                raise BatchTooLargeError(
                    f"a batch of {packed.size} bytes; the bound is {self.most_batch}; make the batch smaller, or raise"
                    " most_batch_bytes of serve and RemoteLoader"
                )
            made = 1, packed.size
        except (Exception, SystemExit) as error:
            conn.add_failure(request, error, self.config.host, self.config.slot, indices)
            return False
        finally:
            self.table.end_batch(self.config.slot, *made)
        now = time.monotonic()
        self.quick_run = self.quick_run + 1 if now - begun < QUICK_SECONDS else 0
        is_room = conn.waiting_bytes + 2 * packed.size <= MOST_TOGETHER_BYTES
        joins = is_room and now < until and self.quick_run > QUICK_RUN and bool(conn.requests)
        conn.add_batch(request, packed, is_copied=joins)
        return joins
