"""Where a host of the job listens: at its own address on the job's network, never at all of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.wire.control_rpc import DEFAULT_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKLOG = 512
LEASE_PORT = 7801
_SIOCGIFADDR = 0x8915


def own_address(name: str, interface: str) -> str:
    """Return this host's address for the other hosts. Raises SettingError if none is known.

    The job's interface counts first; a name may also mean another interface, or another host's address.
    """
    if name != "localhost":
        found = [_interface_address(interface), *_resolve(name)]
        for address in found:
            if address and _is_own(address):
                return address
        raise SettingError(
            f"no address of this host is known: its interface {interface!r} has none and its name {name!r} means"
            f" {found[1:] or 'nothing'}; state it with address= of serve"
        )
    return "127.0.0.1"


def control_port(asked: int | None, environ: Mapping[str, str] = os.environ) -> int:
    """Return the control port. Raises SettingError for a number that is none."""
    return check_port(environ.get("DLC_DATA_PORT") or DEFAULT_PORT if asked is None else asked)


def lease_port(environ: Mapping[str, str] = os.environ) -> int:
    """Return the port at which training processes meet: for leases, or for the sum of what they took."""
    return check_port(environ.get("DLC_DATA_LEASE_PORT") or LEASE_PORT)


def check_port(found: int | str) -> int:
    """Return the port as a number. Raises SettingError."""
    try:
        number = int(found)
    except ValueError:
        number = -1
    if not 0 < number < 65536:
        raise SettingError(f"port of the data service: expected a number from 1 to 65535, found {found!r}")
    return number


def join_host_port(address: str, number: int) -> str:
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


def open_listener(address: str, number: int = 0) -> socket.socket:
    """Open a socket that listens there, at a port that the system chooses unless one is named."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # The port may be that of a job that ended a moment ago.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, number))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _interface_address(interface: str) -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(sock, _SIOCGIFADDR, request)[20:24])
    return ""


def _resolve(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(item[4][0]) for item in found))


def _is_own(address: str) -> bool:
    try:
        open_listener(address).close()
    except OSError:
        return False
    return True


def keep_alive(sock: socket.socket) -> None:
    """Notice a host that is gone, or cut off, though nothing closes the connection."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
