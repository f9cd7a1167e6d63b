"""Listening sockets on the addresses that the job knows this host by, and on no other."""

from __future__ import annotations

import os
import socket
import sys

from launch.base.errors import UNAVAILABLE, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BACKLOG = 1024  # every host of the job may come at once


def listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """A socket for each address; for every address of this machine where none is given.

    Raises LaunchError when the port is taken.
    """
    if not addresses:
        print(f"dlc: the job's network interface has no address; listening on all, port {port}", file=sys.stderr)
    opened: list[socket.socket] = []
    try:
        for address in addresses or [""]:
            opened.append(open_one(address, port))
    except OSError as error:
        for sock in opened:
            sock.close()
        raise LaunchError(
            UNAVAILABLE,
            f"the group's port cannot be opened: {os.strerror(error.errno or 0)}",
            where=f"port {port}",
            remedy="set DLC_GROUP_PORT to a free port, the same on every host",
        ) from error
    return opened


def open_one(address: str, port: int) -> socket.socket:
    """A listening socket; on every address of this machine where it is empty. Raises OSError."""
    if not address and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=BACKLOG)
