"""Ports for servers of tests."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that nobody listens on, and that no connection gets as its own: the kernel takes those from a range."""
    first_of_connections = int(CONNECTIONS.read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_of_connections)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("", port))
            return port
