"""Opens connections to a registry: certificates are checked, proxies used, redirects followed where that is safe."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlc.core import tls
from dlc.core.environment import hide_password
from dlc.core.errors import RegistryError
from dlc.registry.client.credentials import is_loopback


def find_proxy(url: str) -> str:
    """Return the proxy by which an address is asked, as messages show it; empty if it is asked itself."""
    parts = urllib.parse.urlsplit(url)
    if is_loopback(parts.netloc) or urllib.request.proxy_bypass(parts.netloc):
        return ""
    return hide_password(urllib.request.getproxies().get(parts.scheme, ""))


def make_opener(host: str, ca: Path | None) -> urllib.request.OpenerDirector:
    """Make what opens connections to a registry: certificates checked, proxies as the environment names them.

    Raises RegistryError for a CA bundle that cannot be read.
    """
    context = tls.make_context()
    if ca:
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            # ssl.SSLError is an OSError.
            raise RegistryError(
                f"{ca}: expected certificates in PEM, found: {error}", "name a CA bundle in DLC_CA_BUNDLE"
            ) from None
    handlers: list[urllib.request.BaseHandler] = [_Plain(), _Secured(context), _Redirects()]
    if is_loopback(host):
        # No proxy reaches our own interface.
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


class _Connection(http.client.HTTPConnection):
    """A connection whose timeout bounds the whole head of an answer too, not only each byte of it."""

    def getresponse(self) -> http.client.HTTPResponse:
        """Return the answer. Raises TimeoutError if its head comes too slowly."""
        late = threading.Event()
        opened = self.sock

        def end() -> None:
            late.set()
            with suppress(OSError):
                # Whoever reads gets no more. TLS is not taken down beside a read.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

        timer = threading.Timer(self.timeout or 0.0, end)
        timer.daemon = True
        timer.start()
        try:
            answer = super().getresponse()
        except (OSError, http.client.HTTPException):
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
        if late.is_set():
            # A head that is cut off passes for a whole one.
            answer.close()
            raise TimeoutError
        return answer


class _SecuredConnection(_Connection, http.client.HTTPSConnection):
    """The same over TLS."""


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _Secured(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecuredConnection, req, context=self._tls)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects as urllib does, but never from TLS to plain HTTP, nor to FTP: those are answers like others."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the next request, None for the answer as it stands."""
        if not newurl.startswith("https:" if req.type == "https" else ("http:", "https:")):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow a redirect; urllib leaves the connection open if its Location is no address."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
