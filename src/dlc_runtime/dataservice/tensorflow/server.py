"""One server of TensorFlow's, kept to one address, in a process of its own: `python -m ...server JSON`.

It reports through a descriptor when it listens, or why it does not. Imports TensorFlow.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import ipaddress
import json
import os
import signal
import socket
import stat
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.wire import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DISPATCHER, WORKER = "dispatcher", "worker"
# So soon a worker hears of a new epoch, a new dispatcher of its workers. TensorFlow's is 30 s.
HEARTBEAT_MS = 200
# Then the worker's process ends and says so.
DISPATCHER_TIMEOUT_MS = 60 * 1000
OPEN = "DLC_TF_DATA_OPEN"
SO_ATTACH_FILTER = 26
_SIOCGIFADDR = 0x8915
# SKF_NET_OFF: offsets from the start of the IP header.
_NETWORK_HEADER = 0xFFF00000
_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x06
# Its place in an IP header.
_DESTINATION = {4: 16, 6: 24}
_WHOLE_PACKET = 0xFFFFFFFF


class ServerConfig(NamedTuple):
    """What a server is told by its host's process.

    `listen` is this host's address on the job's network. A worker gets as host:port the `dispatcher`, and
    its `own` address for consumers; a dispatcher gets its `journal` folder. `report` is a descriptor.
    """

    kind: str
    host: str
    listen: str
    port: int
    dispatcher: str = ""
    own: str = ""
    journal: str = ""
    report: int = -1

    @property
    def name(self) -> str:
        return f"the {self.kind} of tf.data.service on {self.host}"


def main(text: str) -> None:
    config = ServerConfig(**json.loads(text))
    # Ctrl-C reaches the host's process too, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = _start(config)
    except Exception as error:
        _report(config.report, {"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    _report(config.report, {"listens": config.port})
    while os.read(0, 4096):
        pass
    del server
    # TensorFlow's servers wait for their clients to go; there is nothing to save.
    os._exit(0)


def _start(config: ServerConfig) -> Any:
    addresses.open_listener("0.0.0.0", config.port).close()  # noqa: S104 - gRPC would share the port with another server
    import tensorflow as tf

    service = tf.data.experimental.service
    if config.kind == DISPATCHER:
        dispatcher = service.DispatcherConfig(port=config.port, work_dir=config.journal, fault_tolerant_mode=True)
        server = service.DispatchServer(dispatcher, start=False)
    else:
        server = service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=config.dispatcher,
                worker_address=config.own,
                port=config.port,
                heartbeat_interval_ms=HEARTBEAT_MS,
                dispatcher_timeout_ms=DISPATCHER_TIMEOUT_MS,
            ),
            start=False,
        )
    server.start()
    if os.environ.get(OPEN) != "1":
        _close_other_addresses(config)
    return server


def _close_other_addresses(config: ServerConfig) -> None:
    try:
        found = accept_only(config.listen, config.port)
    except OSError as error:
        # Some kernels ask for CAP_NET_ADMIN.
        others = other_interfaces(config.listen)
        if not others:
            return
        raise RuntimeError(
            f"TensorFlow listens at every address, also on {', '.join(others)}, and asks for no password; the kernel"
            f" takes no filter that keeps it to {config.listen}: {error}; {OPEN}=1 goes on without"
        ) from error
    if not found:
        raise RuntimeError(f"no socket listens at port {config.port} after the start")


def _report(descriptor: int, what: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, json.dumps(what).encode() + b"\n")


def accept_only(address: str, port: int) -> int:
    """Let this process's sockets at `port` hear only what is sent to `address`; return how many these are.

    Raises OSError if the kernel takes no filter.
    """
    program = _filter_program(address)
    buffer = ctypes.create_string_buffer(program, len(program))
    # Native, as struct sock_fprog.
    attached = struct.pack("HP", len(program) // 8, ctypes.addressof(buffer))
    count = 0
    for sock in _sockets(port):
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
        count += 1
    return count


def other_interfaces(address: str) -> list[str]:
    """Return interfaces with other addresses than this and the loopback's: there strangers could reach a server."""
    found: dict[str, set[str]] = {}
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            reply = fcntl.ioctl(sock, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            found.setdefault(name, set()).add(socket.inet_ntoa(reply[20:24]))
    with contextlib.suppress(FileNotFoundError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for digits, *_, name in map(str.split, file):
            found.setdefault(name, set()).add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return [name for name, own in found.items() if address not in own and not all(map(_is_loopback, own))]


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _filter_program(address: str) -> bytes:
    """Accept what goes to the address, drop the rest: the destination is compared word by word."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    version = 6 if len(packed) == 16 else 4
    words = struct.unpack(f"!{len(packed) // 4}I", packed)
    tests = [(_LOAD_WORD, _NETWORK_HEADER + _DESTINATION[version] + 4 * i, word) for i, word in enumerate(words)]
    # If the version differs, jump over the tests to the refusal.
    after_version = 2 * len(tests) + 1
    steps = [
        (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_JUMP_IF_EQUAL, 0, after_version, version),
    ]
    for number, (load, offset, word) in enumerate(tests):
        steps += [(load, 0, 0, offset), (_JUMP_IF_EQUAL, 0, 2 * (len(tests) - number - 1) + 1, word)]
    steps += [(_RETURN, 0, 0, _WHOLE_PACKET), (_RETURN, 0, 0, 0)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _sockets(port: int) -> Iterator[socket.socket]:
    """Yield this process's TCP sockets at its own port, those that listen and those that were accepted."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            copy = os.dup(int(name))
        except OSError:
            # Closed meanwhile.
            continue
        with socket.socket(fileno=copy) as sock:
            is_tcp = sock.type == socket.SOCK_STREAM and sock.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and sock.getsockname()[1] == port:
                yield sock


if __name__ == "__main__":
    main(sys.argv[1])
