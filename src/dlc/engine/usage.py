"""Lists what uses the private engine now, before it is stopped: containers, and clients such as builds."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from dlc.core.errors import EngineError
from dlc.engine import docker_client

ASK_SECONDS = 60.0
# After so long the engine has closed the connection of our own client.
LEAVE_SECONDS = 1.0
CLIENTS = {"docker", "docker-buildx", "docker-compose", "buildx"}
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
# NLM_F_REQUEST and NLM_F_DUMP.
DUMP = 0x301
# TCP_ESTABLISHED, which Unix sockets use too.
CONNECTED = 1
SHOW_NAME_AND_PEER = 0x1 | 0x4
# Attributes of an answer.
NAME, PEER = 0, 2
# Messages that end an answer.
ERROR, DONE = 2, 3
# Length, type, flags, sequence, port.
HEADER = struct.Struct("=IHHII")
# Family, protocol, padding, states, inode, what to show, cookie (2).
REQUEST = struct.Struct("=BBHIIIII")
# Family, type, state, padding, inode, cookie (2).
ANSWER = struct.Struct("=BBBBIII")
# Length, type.
ATTRIBUTE = struct.Struct("=HH")


def describe_usage(address: str, socket: Path) -> list[str]:
    """Return a line for each running container and each connected client; none if the engine is idle."""
    try:
        reach = docker_client.client_environment(address)
        done = docker_client.run_docker(
            "ps", "--format", "container {{.Names}} ({{.Image}})", env=reach, timeout=ASK_SECONDS
        )
    except EngineError as error:
        return [f"what runs is not known: {error.message}"]
    return [*done.stdout.splitlines(), *_list_clients(address, socket)]


def _list_clients(address: str, socket: Path) -> list[str]:
    deadline = time.monotonic() + LEAVE_SECONDS
    try:
        while (count := count_connections(socket)) and time.monotonic() < deadline:
            time.sleep(0.1)
    except OSError:
        # This kernel has no sock_diag.
        return _list_commands(address)
    if not count:
        return []
    return _list_commands(address) or [f"{count} connections of clients, such as a build or `docker logs --follow`"]


def _list_commands(address: str) -> list[str]:
    """List the command lines of docker clients on this host, without those that use another engine."""
    found = []
    for path in sorted(Path("/proc").glob("[0-9]*")):
        try:
            argv = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            variables = (path / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        chosen = [line for line in variables if line.startswith("DOCKER_HOST=")]
        if argv and Path(argv[0]).name in CLIENTS and chosen in ([], [f"DOCKER_HOST={address}"]):
            found.append(f"client {path.name}: {' '.join([Path(argv[0]).name, *argv[1:]])[:100]}")
    return found


def count_connections(path: Path) -> int:
    """Count the clients that hold a connection to the socket at a path. Raises OSError if the kernel does not say."""
    name = str(path).encode()
    found = (dict(_split_attributes(answer[ANSWER.size :])) for answer in _ask_kernel())
    return sum(one.get(NAME, b"").rstrip(b"\0") == name and any(one.get(PEER, b"")) for one in found)


def _ask_kernel() -> Iterator[bytes]:
    """Yield an answer for each Unix socket that is connected."""
    body = REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << CONNECTED, 0, SHOW_NAME_AND_PEER, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(5.0)
        kernel.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, DUMP, 1, 0) + body)
        while True:
            for kind, message in _split_messages(kernel.recv(1 << 16)):
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError("the kernel refused to list Unix sockets")
                yield message


def _split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= HEADER.size:
        length, kind, *_ = HEADER.unpack_from(data)
        yield kind, data[HEADER.size : length]
        data = data[_align(length) :]


def _split_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        yield kind, data[ATTRIBUTE.size : length]
        data = data[_align(length) :]


def _align(length: int) -> int:
    return (max(length, 4) + 3) & ~3
