"""The way to the leader's hub: its name, the address that worked, and whether waiting for it still has a use."""

from __future__ import annotations

import socket
import time

from launch.base.errors import one_line
from launch.discovery import names
from launch.group.channel import NotOfThisJobError

SURE_AFTER = 5.0  # seconds of a wrong answer, after which its end changes nothing
HOPELESS_AFTER = 12.0  # seconds of the same trouble, where waiting does not mend it


def source(own: str) -> tuple[str, int] | None:
    """A host that is known by an address also comes from it, so that the others can tell it from others."""
    return (own, 0) if names.is_address(own) and names.is_own(own) else None


class Reach:
    """How the leader is reached. It may come minutes later; a name that went away or a wrong answer is final."""

    def __init__(self, leader: str, port: int) -> None:
        self.leader, self.port = leader, port
        self.trouble = "no answer yet"  # what the last attempt met
        self._address = ""  # that worked: a host that was met needs no name any more
        self._resolved = False
        self._bad_since = 0.0
        self._bad = ""

    @property
    def hopeless(self) -> str:
        """Why waiting for the leader has no use; empty while it may have."""
        return self._bad if self._bad and time.monotonic() - self._bad_since >= HOPELESS_AFTER else ""

    def connect(self, own: str, timeout: float) -> socket.socket:
        """A connection to the leader's port. Raises OSError."""
        address = self._address or self._resolve()
        return socket.create_connection((address, self.port), timeout, source_address=source(own))

    def _resolve(self) -> str:
        found = names.addresses(self.leader)
        if not found:
            if self._resolved:
                self._note_bad(f"{self.leader} ended before the hosts had met: its name is gone")
            raise OSError(f"{self.leader} does not resolve")
        self._resolved = True
        return found[0] if len(found) == 1 else self.leader

    def succeeded(self, address: str) -> None:
        """The hub proved to be there: this address is used from now on."""
        self._bad, self._address = "", address

    def failed(self, error: Exception, how: str, answered: bool) -> None:
        """Note what went wrong; `answered`: somebody took the connection."""
        self.trouble = one_line(how)
        where = f"{self.leader}, port {self.port}"
        if answered and isinstance(error, NotOfThisJobError):
            self._note_bad(f"what answers on {where} is not this job's launcher: {self.trouble}")
        elif answered:
            self._note_bad(f"what answers on {where} does not say that it is this job's launcher: {self.trouble}")
        elif time.monotonic() - self._bad_since < SURE_AFTER and "does not resolve" not in how:
            self._bad = ""  # it was there for a moment, and is gone: perhaps what ran before this job

    def _note_bad(self, text: str) -> None:
        if not self._bad:
            self._bad_since = time.monotonic()
        self._bad = text
