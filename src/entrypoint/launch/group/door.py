"""A host's door: a port at which others of the job try, until all are ready, whether they reach this host."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time

from launch.discovery import names
from launch.group.channel import Channel, NotOfThisJobError
from launch.group.listeners import open_one
from launch.group.strangers import Strangers
from launch.group.token import for_purpose

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

LOOK = 1.0  # seconds between looks for callers whose time is over
OPEN_TRIES = 5  # a port that is free on one address may be taken on the next
CLOSE_BOUND = 5.0  # seconds


class Door(threading.Thread):
    """Proves to whoever calls that this host of the job is here; tells and takes nothing else."""

    def __init__(self, host: str, listeners: Sequence[socket.socket], key: bytes, hosts: int) -> None:
        super().__init__(daemon=True, name="group door")
        self.port: int = listeners[0].getsockname()[1]
        self._host = host
        self._key = key
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._callers: dict[int, Channel] = {}
        self._strangers = Strangers(hosts)
        self._is_closing = False
        self._wake_read, self._wake_write = os.pipe()
        self._poll = select.poll()
        for listener in listeners:
            listener.setblocking(False)
        for fd in (*self._listeners, self._wake_read):
            self._poll.register(fd, select.POLLIN)

    def close(self) -> None:
        """Nobody is answered any more, and the port is free; once is enough."""
        if self._is_closing:
            return
        self._is_closing = True
        os.write(self._wake_write, b"x")
        self.join(CLOSE_BOUND)
        os.close(self._wake_read)
        os.close(self._wake_write)

    def run(self) -> None:
        """The thread."""
        try:
            while not self._is_closing:
                for fd, _ in self._poll.poll(LOOK * 1000 if self._callers else None):
                    self._serve(fd)
                for caller in self._strangers.overdue(time.monotonic()):
                    self._see_off(caller)
        finally:
            for caller in self._callers.values():
                caller.socket.close()
            for listener in self._listeners.values():
                listener.close()

    def _serve(self, fd: int) -> None:
        if fd in self._listeners:
            self._let_in(self._listeners[fd])
        elif fd in self._callers:
            caller = self._callers[fd]
            try:
                caller.receive()
                caller.flush()
            except (NotOfThisJobError, OSError, ValueError, RecursionError):  # nonsense, or it has its answer
                self._see_off(caller)

    def _let_in(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except OSError:  # gone again, or no descriptors left: one who stays too long makes room
            self._see_off(self._strangers.least_welcome())
            return
        caller = Channel(sock, self._key, is_server=True)
        caller.send({"host": self._host})
        self._callers[sock.fileno()] = caller
        self._poll.register(caller, select.POLLIN)
        self._see_off(self._strangers.add(caller, str(address[0])))
        with contextlib.suppress(OSError):  # broken already: the next poll() says so
            caller.flush()

    def _see_off(self, caller: Channel | None) -> None:
        if caller is not None and self._callers.pop(caller.fileno(), None) is not None:
            self._strangers.discard(caller)
            self._poll.unregister(caller)
            caller.socket.close()


def door_key(key: bytes) -> bytes:
    """What the doors of a job prove to hold: who asks a door learns nothing that the hub would take."""
    return for_purpose(key, "door").encode()


def open_door(host: str, addresses: Sequence[str], port: int, key: bytes, hosts: int) -> Door | None:
    """The door on these addresses, at a free port where `port` is 0 or taken; None where none can be opened."""
    for wanted in (port, *[0] * OPEN_TRIES):
        with contextlib.suppress(OSError):
            door = Door(host, _listeners(reachable(host, addresses), wanted), door_key(key), hosts)
            door.start()
            return door
    return None


def reachable(host: str, addresses: Sequence[str]) -> Sequence[str]:
    """Where to listen: nowhere in particular if all that is known means this machine alone (Debian's 127.0.1.1)."""
    only_here = all(address == "::1" or address.startswith("127.") for address in addresses)
    return ("",) if only_here and not names.is_address(host) else addresses or ("",)


def _listeners(addresses: Sequence[str], port: int) -> list[socket.socket]:
    opened: list[socket.socket] = []
    try:
        for address in addresses:
            opened.append(open_one(address, port))
            port = port or opened[0].getsockname()[1]
    except OSError:
        for sock in opened:
            sock.close()
        raise
    return opened
