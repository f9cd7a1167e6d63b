"""Connections to registries, which stay open from one request to the next: certificates checked, proxies used.

All sessions of this process share them, and so do its threads: nothing that is secret belongs to a connection.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.parse
import urllib.request
from functools import cache
from pathlib import Path
from ssl import SSLContext
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from dlc.core import tls
from dlc.core.errors import RegistryError
from dlc.registry.client.credentials import Credentials, is_loopback

# A server, or a firewall that says nothing, may have dropped a connection that nobody used for longer.
IDLE_SECONDS = 30.0
# To one host: layers are sent by several threads.
MOST_OPEN = 8
# Of a body, at a time.
BLOCK = 64 << 10


def find_proxy(url: str) -> str:
    """Return the proxy by which an address is asked, as the environment names it; empty if it is asked itself."""
    parts = urllib.parse.urlsplit(url)
    # No proxy reaches our own interface.
    if is_loopback(parts.netloc) or urllib.request.proxy_bypass(parts.netloc):
        return ""
    return urllib.request.getproxies().get(parts.scheme, "")


@cache
def make_context(ca: Path | None) -> SSLContext:
    """Return what trusts the host's authorities, and those of a file. Raises RegistryError if it cannot be read."""
    context = tls.make_context()
    if ca:
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            # ssl.SSLError is an OSError.
            raise RegistryError(
                f"{ca}: expected certificates in PEM, found: {error}", "name a CA bundle in DLC_CA_BUNDLE"
            ) from None
    return context


@cache
def open_pools(ca: Path | None, proxy: str) -> urllib3.PoolManager:
    """Return the connections, by host, of those who trust an authority and ask by a proxy, or by none."""
    settings: dict[str, Any] = {"ssl_context": make_context(ca), "maxsize": MOST_OPEN, "blocksize": BLOCK}
    if proxy:
        # The proxy is spoken to without TLS, whatever the scheme of its address.
        login, _, place = proxy.rpartition("://")[2].rpartition("@")
        user, _, password = map(urllib.parse.unquote, login.partition(":"))
        headers = {"Proxy-Authorization": Credentials(user, password).basic} if password else None
        pools: urllib3.PoolManager = urllib3.ProxyManager(f"http://{place}", proxy_headers=headers, **settings)
    else:
        pools = urllib3.PoolManager(**settings)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _SecuredPool}
    return pools


class _Bounded(io.RawIOBase):
    """What comes from a socket until a moment; later reads raise TimeoutError."""

    def __init__(self, opened: socket.socket, incoming: io.RawIOBase) -> None:
        self._socket, self._incoming = opened, incoming
        self._seconds = opened.gettimeout() or 0.0
        self.restart()

    def restart(self) -> None:
        """Give what follows as many seconds as the socket had at first."""
        self._end = time.monotonic() + self._seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there. Raises TimeoutError."""
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._incoming.readinto(buffer)

    def close(self) -> None:
        """Close it for the socket, too, which counts its readers."""
        self._incoming.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose whole head, and each read of whose body, comes within the timeout: not only each byte of it."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._bounded = _Bounded(sock, self.fp.detach())
        self.fp = io.BufferedReader(self._bounded)

    def read1(self, n: int = -1) -> bytes:
        """Return what is there of the body, up to `n` bytes. Raises TimeoutError."""
        self._bounded.restart()
        return super().read1(n)


class _Connection(HTTPConnection):
    """A connection that is not used again after nobody used it for long."""

    response_class = _Response
    _used = 0.0

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request."""
        super().request(*args, **options)
        self._used = time.monotonic()

    @property
    def is_connected(self) -> bool:
        """Tell whether it may be used again."""
        return super().is_connected and time.monotonic() - self._used < IDLE_SECONDS


class _SecuredConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecuredPool(HTTPSConnectionPool):
    ConnectionCls = _SecuredConnection
