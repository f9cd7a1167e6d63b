"""This host's own name, by which libraries (torchrun, gloo, Horovod) learn their address: whether it resolves.

In a container without a network (`docker run --network none`) no name server knows it, and /etc/hosts neither. Without
the socket module, whose import a job on one host does without.
"""

from __future__ import annotations

import _socket
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LOOPBACK = "127.0.0.1"
HOSTS_FILE = "etc/hosts"


def get_own_name() -> str:
    """Return the name that the kernel has for this host."""
    return os.uname().nodename


def find_unlisted(names: Iterable[str], root: str = "/") -> list[str]:
    """Return those of `names` that the hosts file below `root` does not know; an address needs no name."""
    known: list[str] = []
    try:
        with open(f"{root}/{HOSTS_FILE}", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                known += line.partition("#")[0].split()[1:]
    except OSError:
        pass
    return [
        name for name in dict.fromkeys(names) if name.strip("0123456789.") and ":" not in name and name not in known
    ]


def may_list_names(root: str = "/") -> bool:
    """Return whether the launcher may add to the hosts file: an engine's mount, not the machine's own."""
    path = f"{root}/{HOSTS_FILE}"
    return os.path.ismount(path) and os.access(path, os.W_OK)


def list_names(names: Iterable[str], address: str = LOOPBACK, root: str = "/") -> None:
    """Let `names` mean `address` on this host."""
    with open(f"{root}/{HOSTS_FILE}", "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{address}\t{' '.join(names)}\n")


def describe_trouble(root: str = "/") -> list[str]:
    """Say that the own name does not resolve if the launcher cannot mend it; nothing if all is well."""
    name = get_own_name()
    if may_list_names(root) or not find_unlisted([name], root):
        return []
    try:
        _socket.getaddrinfo(os.fsencode(name), None)
    except OSError:
        return [
            f"this host's own name, {name}, does not resolve: libraries that look it up wait for minutes, or crash;"
            f" start the container with --add-host {name}:{LOOPBACK}, or as a user who may write /etc/hosts"
        ]
    return []
