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
from dlc_runtime.dataservice.tensorflow import endpoints
from dlc_runtime.dataservice.tensorflow.server import DISPATCHER, WORKER, ServerConfig
from dlc_runtime.dataservice.wire import addresses, tally
from dlc_runtime.host import until_signalled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
# For a server to import TensorFlow and to read its journal.
LISTEN_SECONDS = 600.0
# Of one server: more are no chance.
MOST_STARTS = 20
# Before a lost server is started again.
PAUSE_SECONDS = 0.5
_MODULE = "dlc_runtime.dataservice.tensorflow.server"


def serve(
    *, group: str | None = None, address: str | None = None, patience: float = endpoints.PATIENCE_SECONDS
) -> None:
    """Run this host's worker, and on the data group's first host the dispatcher, until this process is told to end.

    `group` is the data group's name. `address` is where to listen, by default this host's on the job's network. Raises
    SettingError, MissingPackageError, ServersLostError if the dispatcher does not answer within `patience` seconds,
    and DataServiceError if a server cannot listen or is lost again and again.
    """
    endpoints.require_tensorflow()
    job = cluster_facts.read()
    group = group or (job.group if len(job.hosts) == 1 else endpoints.find_data_group(job))
    service = endpoints.find_service(job, group)
    listen = address or addresses.own_address(job.me.address, job.interface)
    dispatcher_port, worker_port = endpoints.read_ports()
    is_first = job.hosts_of(group)[0].host == job.host
    with _journal() as folder, _sum_of_counts(listen) if is_first else contextlib.nullcontext():
        own = addresses.join_host_port(job.me.address, worker_port)
        configs = [ServerConfig(WORKER, job.host, listen, worker_port, service.dispatcher, own)]
        if is_first:
            configs.insert(0, ServerConfig(DISPATCHER, job.host, listen, dispatcher_port, journal=folder))
        if job.group == group:
            cluster_facts.tell_that_this_serves()
        with HostServers(configs, service, patience) as host, until_signalled(host.stop):
            host.run()


class ServerProcess:
    """A server's process. `report_fd` is readable when it has something to say, and at its end."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.starts = 0
        self.report_fd = -1
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, environ: dict[str, str]) -> None:
        self.starts += 1
        self.report_fd, theirs = os.pipe()
        told = json.dumps(self.config._replace(report=theirs)._asdict())
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, told], stdin=subprocess.PIPE, pass_fds=(theirs,), env=environ
            )
        finally:
            os.close(theirs)

    def read_report(self) -> dict[str, Any]:
        """Return what it says; empty at its end."""
        line = os.read(self.report_fd, 65536)
        return dict(json.loads(line)) if line else {}

    def kill(self) -> int:
        """Kill it: all that it has to save, the journal, is on the disk. Return its exit code."""
        if self.process is None:
            return 0
        self.process.kill()
        code = self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        os.close(self.report_fd)
        self.process = None
        return code


class HostServers:
    """The servers of this host."""

    def __init__(self, configs: list[ServerConfig], service: endpoints.Service, patience: float) -> None:
        self.servers = [ServerProcess(config) for config in configs]
        self.patience = patience
        # The GPUs are the training's.
        self.environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        endpoints.bypass_proxies([service.dispatcher, *service.workers], self.environ)
        self.wake, self._wake_write = os.pipe()
        self.is_ended = False

    def __enter__(self) -> HostServers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()
        os.close(self.wake)
        os.close(self._wake_write)

    def stop(self) -> None:
        """Let `run` return; from a signal handler."""
        self.is_ended = True
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def run(self) -> None:
        """Serve until the end. Raises DataServiceError if this host cannot."""
        for server in self.servers:
            self._start(server)
        while not self.is_ended:
            for server in self._readable({server.report_fd: server for server in self.servers}):
                self._replace(server)

    def _start(self, server: ServerProcess) -> None:
        """Start it and wait until it listens; return early at the end."""
        config = server.config
        if config.kind == WORKER:
            endpoints.wait_for_one([config.dispatcher], "the dispatcher", self.patience, lambda: self.is_ended)
        if self.is_ended:
            return
        server.start(self.environ)
        has_spoken = self._readable({server.report_fd: server}, LISTEN_SECONDS)
        if self.is_ended:
            return
        report = server.read_report() if has_spoken else {"error": f"it does not listen after {LISTEN_SECONDS:g} s"}
        if "error" in report:
            switch = endpoints.DISPATCHER_SWITCH if config.kind == DISPATCHER else endpoints.WORKER_SWITCH
            raise DataServiceError(
                f"{config.name} cannot serve at {config.listen}:{config.port}: {report['error']}; {switch} on every"
                " host names another port"
            )
        if report:
            LOG.info("tf.data.service: the %s on %s listens at %s:%d", *config[:4])

    def _replace(self, server: ServerProcess) -> None:
        code, config = server.kill(), server.config
        if server.starts >= MOST_STARTS:
            raise DataServiceError(f"{config.name} ended {server.starts} times, now with {code}")
        LOG.warning("tf.data.service: the %s on %s ended with %d; a new one starts", config.kind, config.host, code)
        time.sleep(PAUSE_SECONDS)
        self._start(server)

    def _readable(self, found: dict[int, ServerProcess], seconds: float | None = None) -> list[ServerProcess]:
        """Return those that spoke or ended within `seconds`; none at this host's end."""
        poll = select.poll()
        for fd in (self.wake, *found):
            poll.register(fd, select.POLLIN)
        events = poll.poll(None if seconds is None else seconds * 1000)
        return [] if self.is_ended else [found[fd] for fd, _ in events if fd in found]


@contextlib.contextmanager
def _journal() -> Iterator[str]:
    """Make a private folder, in which a new dispatcher finds the old one's journal."""
    own = os.environ.get("DLC_RUN_DIR", "")
    folder = tempfile.mkdtemp(prefix="dlc-tf-data-", dir=own if os.path.isdir(own) else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _sum_of_counts(listen: str) -> Iterator[None]:
    """Add up what the training processes take, if its port is free: the job does without."""
    port = addresses.lease_port()
    try:
        adding = tally.Tally(listen, port)
    except OSError as error:
        where = addresses.join_host_port(listen, port)
        LOG.warning("tf.data.service: lost elements are not added up: %s: %s; DLC_DATA_LEASE_PORT", where, error)
        yield
        return
    adding.start()
    try:
        yield
    finally:
        adding.close()


def main() -> int:
    """Serve for the launcher; the job's arguments are the training's."""
    logging.basicConfig(level=logging.INFO, format="dlc: %(message)s")
    try:
        serve()
    except (DataServiceError, cluster_facts.ClusterError) as error:
        print(f"dlc: {error}", file=sys.stderr)
        is_setting = isinstance(error, (SettingError, ImportError, cluster_facts.ClusterError))
        return os.EX_CONFIG if is_setting else os.EX_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
