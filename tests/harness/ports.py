"""Ports for servers of tests."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Not the module's own numbers: with tests in a random order every worker of pytest begins them with the same seed.
CHANCE = random.SystemRandom()


def free_port(address: str = "") -> int:
    """A port that nobody listens on at this address, or at any.

    No connection gets it as its own: the kernel takes those from a range.
    """
    first, last = (int(bound) for bound in CONNECTIONS.read_text().split())
    ports = range(5000, 65536)
    outside = [port for port in ports if not first <= port <= last] or ports
    while True:
        port = CHANCE.choice(outside)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind((address, port))
            return port
