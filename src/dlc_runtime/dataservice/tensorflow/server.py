"""One server of TensorFlow's, in a process of its own: `python -m ...server JSON`. Ends when its stdin closes.

It says on the descriptor that it is told when it listens, or why it does not. Imports TensorFlow.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.tensorflow import guard
from dlc_runtime.dataservice.wire import address

if TYPE_CHECKING:
    from typing import Any

DISPATCHER, WORKER = "dispatcher", "worker"
HEARTBEAT_MS = 200  # so soon a worker hears of a new epoch, and a new dispatcher of its workers; TensorFlow says 30 s
DISPATCHER_TIMEOUT_MS = 60 * 1000  # then the worker's process ends and says so
OPEN = "DLC_TF_DATA_OPEN"


class Order(NamedTuple):
    """What a server is told by its host's process."""

    kind: str
    host: str
    listen: str  # the address of this host on the job's network
    port: int
    dispatcher: str = ""  # for a worker: host:port
    own: str = ""  # for a worker: host:port under which consumers reach it
    journal: str = ""  # for a dispatcher: its folder
    report: int = -1  # a descriptor


def main(text: str) -> None:
    order = Order(**json.loads(text))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the host's process too, which ends this one
    try:
        server = _start(order)
    except Exception as error:  # of whatever kind: TensorFlow's are
        _say(order.report, {"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    _say(order.report, {"listens": order.port})
    while os.read(0, 4096):
        pass
    del server
    os._exit(0)  # TensorFlow's servers wait for their clients to go; there is nothing to save


def _start(order: Order) -> Any:
    address.listener("0.0.0.0", order.port).close()  # noqa: S104 - gRPC would share the port with another server
    import tensorflow as tf

    service = tf.data.experimental.service
    if order.kind == DISPATCHER:
        config = service.DispatcherConfig(port=order.port, work_dir=order.journal, fault_tolerant_mode=True)
        server = service.DispatchServer(config, start=False)
    else:
        server = service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=order.dispatcher,
                worker_address=order.own,
                port=order.port,
                heartbeat_interval_ms=HEARTBEAT_MS,
                dispatcher_timeout_ms=DISPATCHER_TIMEOUT_MS,
            ),
            start=False,
        )
    server.start()
    if os.environ.get(OPEN) != "1":
        _close_to_strangers(order)
    return server


def _close_to_strangers(order: Order) -> None:
    try:
        found = guard.keep_to(order.listen, order.port)
    except OSError as error:  # some kernels ask for CAP_NET_ADMIN
        others = guard.other_interfaces(order.listen)
        if not others:
            return
        raise RuntimeError(
            f"TensorFlow listens at every address, also on {', '.join(others)}, and asks for no password; the kernel"
            f" takes no filter that keeps it to {order.listen}: {error}; {OPEN}=1 goes on without"
        ) from error
    if not found:
        raise RuntimeError(f"no socket listens at port {order.port} after the start")


def _say(descriptor: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
