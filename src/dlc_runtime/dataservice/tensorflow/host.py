"""The servers of one host, and their end: `serve()`, or `python -m dlc_runtime.dataservice.tensorflow.host`.

Starts a process for each server, and starts a lost one again. Does not import TensorFlow.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from dlc_runtime import cluster_facts
from dlc_runtime.dataservice.errors import DataServiceError, SettingError
from dlc_runtime.dataservice.tensorflow import place
from dlc_runtime.dataservice.tensorflow.server import DISPATCHER, WORKER, Order
from dlc_runtime.dataservice.wire import address as addresses
from dlc_runtime.host import until_signalled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
LISTENS_WITHIN = 600.0  # seconds for a server to import TensorFlow and to read its journal
MOST_STARTS = 20  # of one server: that is no chance
PAUSE = 0.5  # seconds before a lost server is started again
CONFIG, UNAVAILABLE = 78, 69  # exit codes, as in sysexits.h
_MODULE = "dlc_runtime.dataservice.tensorflow.server"


def serve(*, group: str | None = None, address: str | None = None, patience: float = place.PATIENCE) -> None:
    """Run this host's worker, and on the data group's first host the dispatcher, until this process is told to end.

    `group` is the data group's name. `address` is where to listen, by default this host's on the job's network. Raises
    SettingError, MissingPackageError, ServersLostError where the dispatcher does not answer within `patience` seconds,
    and DataServiceError where a server cannot listen or is lost again and again.
    """
    place.require_tensorflow()
    job = cluster_facts.read()
    group = group or (job.group if len(job.hosts) == 1 else place.data_group(job))
    service = place.of_job(job, group)
    listen = address or addresses.own(job.me.address, job.interface)
    dispatcher_port, worker_port = place.ports()
    with _journal() as folder:
        own = addresses.joined(job.me.address, worker_port)
        orders = [Order(WORKER, job.host, listen, worker_port, service.dispatcher, own)]
        if job.hosts_of(group)[0].host == job.host:
            orders.insert(0, Order(DISPATCHER, job.host, listen, dispatcher_port, journal=folder))
        if job.group == group:
            cluster_facts.tell_that_this_serves()
        with Host(orders, service, patience) as host, until_signalled(host.stop):
            host.run()


class Server:
    """A server's process. `life` is readable when it has something to say, and at its end."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.starts = 0
        self.life = -1
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, environ: dict[str, str]) -> None:
        self.starts += 1
        self.life, theirs = os.pipe()
        told = json.dumps(self.order._replace(report=theirs)._asdict())
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, told], stdin=subprocess.PIPE, pass_fds=(theirs,), env=environ
            )
        finally:
            os.close(theirs)

    def said(self) -> dict[str, Any]:
        """What it says; empty at its end."""
        line = os.read(self.life, 65536)
        return dict(json.loads(line)) if line else {}

    def end(self) -> int:
        """Kill it: all that it has to save, the journal, is on the disk."""
        if self.process is None:
            return 0
        self.process.kill()
        code = self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        os.close(self.life)
        self.process = None
        return code


class Host:
    """The servers of this host."""

    def __init__(self, orders: list[Order], service: place.Service, patience: float) -> None:
        self.servers = [Server(order) for order in orders]
        self.service, self.patience = service, patience
        self.environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}  # the GPUs are the training's
        place.past_proxies([service.dispatcher, *service.workers], self.environ)
        self.wake, self._wake_write = os.pipe()
        self.is_ended = False

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.end()
        os.close(self.wake)
        os.close(self._wake_write)

    def stop(self) -> None:
        """Let `run` return; from a signal handler."""
        self.is_ended = True
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def run(self) -> None:
        """Until the end. Raises DataServiceError where this host cannot serve."""
        for server in self.servers:
            self._start(server)
        while not self.is_ended:
            for server in self._readable({server.life: server for server in self.servers}):
                self._replace(server)

    def _start(self, server: Server) -> None:
        """Start it and wait until it listens; return early at the end."""
        order = server.order
        if order.kind == WORKER:
            place.wait_for_one([order.dispatcher], "the dispatcher", self.patience, lambda: self.is_ended)
        if self.is_ended:
            return
        server.start(self.environ)
        has_spoken = self._readable({server.life: server}, LISTENS_WITHIN)
        if self.is_ended:
            return
        said = server.said() if has_spoken else {"error": f"it does not listen after {LISTENS_WITHIN:g} s"}
        if "error" in said:
            raise DataServiceError(self._not_started(order, said["error"]))
        if said:
            LOG.info("tf.data.service: the %s on %s listens at %s:%d", *order[:4])

    def _not_started(self, order: Order, why: str) -> str:
        switch = place.DISPATCHER_SWITCH if order.kind == DISPATCHER else place.WORKER_SWITCH
        return (
            f"the {order.kind} of tf.data.service on {order.host} cannot serve at {order.listen}:{order.port}: {why};"
            f" {switch} on every host names another port"
        )

    def _replace(self, server: Server) -> None:
        code, order = server.end(), server.order
        if server.starts >= MOST_STARTS:
            raise DataServiceError(
                f"the {order.kind} of tf.data.service on {order.host} ended {server.starts} times, now with {code}"
            )
        LOG.warning("tf.data.service: the %s on %s ended with %d; a new one starts", order.kind, order.host, code)
        time.sleep(PAUSE)
        self._start(server)

    def _readable(self, found: dict[int, Server], seconds: float | None = None) -> list[Server]:
        """Those that say something or have ended; none at this host's end, or when the time is over."""
        poll = select.poll()
        for descriptor in (self.wake, *found):
            poll.register(descriptor, select.POLLIN)
        events = poll.poll(None if seconds is None else seconds * 1000)
        return [] if self.is_ended else [found[descriptor] for descriptor, _ in events if descriptor in found]


@contextlib.contextmanager
def _journal() -> Iterator[str]:
    """A private folder for this process's life: a dispatcher that is started again finds it."""
    own = os.environ.get("DLC_RUN_DIR", "")
    folder = tempfile.mkdtemp(prefix="dlc-tf-data-", dir=own if os.path.isdir(own) else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """For the launcher, which passes the job's arguments: they are the training's."""
    logging.basicConfig(level=logging.INFO, format="dlc: %(message)s")
    try:
        serve()
    except (DataServiceError, cluster_facts.ClusterError) as error:
        print(f"dlc: {error}", file=sys.stderr)
        return CONFIG if isinstance(error, (SettingError, ImportError, cluster_facts.ClusterError)) else UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
