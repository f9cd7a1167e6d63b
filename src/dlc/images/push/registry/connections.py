"""Opens connections to a registry: certificates are checked, proxies used, redirects followed where that is safe."""

from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path
from typing import Any

from dlc.core.errors import RegistryError
from dlc.images.push.registry.credentials import is_loopback


def make_opener(host: str, ca: Path | None) -> urllib.request.OpenerDirector:
    """Make what opens connections to a registry: certificates checked, proxies as the environment names them.

    Raises RegistryError for a CA bundle that cannot be read.
    """
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            # ssl.SSLError is an OSError.
            raise RegistryError(
                f"{ca}: expected certificates in PEM, found: {error}", "name a CA bundle in DLC_CA_BUNDLE"
            ) from None
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context), _Redirects()]
    if is_loopback(host):
        # No proxy reaches our own interface.
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


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
