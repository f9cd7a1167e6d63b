"""Whether a socket takes connections, and who is connected to a Unix socket.

The kernel tells the latter by sock_diag(7): /proc/net/unix keeps those that are gone.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

CONNECT_SECONDS = 0.5  # a part of what verbs that only look have
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
DUMP = 0x301  # NLM_F_REQUEST and NLM_F_DUMP
CONNECTED = 1  # TCP_ESTABLISHED, which Unix sockets use too
SHOW_NAME_AND_PEER = 0x1 | 0x4
NAME, PEER = 0, 2  # attributes of an answer
ERROR, DONE = 2, 3  # messages that end an answer
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
REQUEST = struct.Struct("=BBHIIIII")  # family, protocol, padding, states, inode, what to show, cookie (2)
ANSWER = struct.Struct("=BBBBIII")  # family, type, state, padding, inode, cookie (2)
ATTRIBUTE = struct.Struct("=HH")  # length, type


def takes_connections(address: str) -> bool:
    """Whether something listens at the address of an engine: one that is silent is busy then, or hangs."""
    kind, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    try:
        with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(place if kind == "unix" else (host, int(port)))
    except (OSError, ValueError):
        return False
    return kind in ("unix", "tcp")


def connections(path: Path) -> int:
    """How many clients hold a connection to the socket at a path. Raises OSError where the kernel does not say."""
    name = str(path).encode()
    found = (dict(_attributes(answer[ANSWER.size :])) for answer in _answers())
    return sum(one.get(NAME, b"").rstrip(b"\0") == name and any(one.get(PEER, b"")) for one in found)


def _answers() -> Iterator[bytes]:
    """One answer for each Unix socket that is connected."""
    body = REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << CONNECTED, 0, SHOW_NAME_AND_PEER, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(5.0)
        kernel.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, DUMP, 1, 0) + body)
        while True:
            for kind, message in _messages(kernel.recv(1 << 16)):
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise OSError("the kernel refused to list Unix sockets")
                yield message


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= HEADER.size:
        length, kind, *_ = HEADER.unpack_from(data)
        yield kind, data[HEADER.size : length]
        data = data[_aligned(length) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        yield kind, data[ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (max(length, 4) + 3) & ~3
