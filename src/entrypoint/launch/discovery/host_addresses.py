"""Names and addresses of hosts: which names resolve, and which addresses this host's interface has."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


# A resolver that hangs must not keep the leader from listening
OWN_NAME_SECONDS = 2.0
# That resolve at a time
THREADS = 32
# Ioctl: the IPv4 address of an interface
SIOCGIFADDR = 0x8915
LOOPBACK = "127.0.0.1"


def resolve(host: str) -> tuple[str, ...]:
    """Return the host's IPv4 and IPv6 addresses in the resolver's order; empty while it has none."""
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: a label too long or empty
        return ()
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))


def find_unresolved(hosts: Iterable[str], seconds: float) -> tuple[str, ...]:
    """Return those of `hosts` that have no address, as far as the resolver says within `seconds`."""
    waiting = list(dict.fromkeys(hosts))[::-1]
    order, found = tuple(waiting[::-1]), dict[str, tuple[str, ...]]()

    def resolve_rest() -> None:
        while waiting:
            # Another thread took the last one
            with contextlib.suppress(IndexError):
                host = waiting.pop()
                found[host] = resolve(host)

    threads = [threading.Thread(target=resolve_rest, daemon=True) for _ in range(min(THREADS, len(order)))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(host for host in order if not found.get(host))


def is_address(host: str) -> bool:
    """Return whether `host` is an IPv4 or IPv6 address, which needs no resolver."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, UnicodeError, ValueError):
            socket.inet_pton(family, host.partition("%")[0])
            return True
    return False


def own_addresses(host: str, interface: str) -> tuple[str, ...]:
    """Return the addresses by which the job knows this host: its interface's, and those that its name means.

    Empty if neither is known. The name may resolve late or never; it is waited for OWN_NAME_SECONDS.
    """
    found = list(interface_addresses(interface))
    named: list[str] = []
    thread = threading.Thread(target=lambda: named.extend(resolve(host)), daemon=True)
    thread.start()
    thread.join(OWN_NAME_SECONDS)
    own = [address for address in named if is_own_address(address)]
    return tuple(dict.fromkeys([*own, *found]))


def plain_address(address: str) -> str:
    """Return an IPv4 address that came over an IPv6 socket as IPv4; others as they are."""
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def interface_addresses(interface: str) -> list[str]:
    import fcntl

    found = []
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("256s", interface.encode()[:15])
        found.append(socket.inet_ntoa(fcntl.ioctl(sock, SIOCGIFADDR, request)[20:24]))
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for line in file:
            digits, *_, name = line.split()
            # Link-local ones mean nothing without a scope
            if name == interface and not digits.startswith("fe80"):
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return found


def is_own_address(address: str) -> bool:
    """Return whether a socket can be bound to it: a name may also lead to another machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((address, 0))
    except OSError:
        return False
    return True
