"""One HTTP request: the answer as a value, a failed connection as a typed error."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any, ClassVar

from dlc.core.errors import RegistryError
from dlc.images.push.registry.address import is_loopback

ANSWER_SECONDS = 30.0  # of one read or write, and for a whole answer
UPLOAD_SECONDS = 300.0  # the same for a file: a registry hashes and moves gigabytes before it answers
ANSWER_LIMIT = 16 << 20  # bytes; manifests and configurations are some kilobytes
BLOCK = 64 << 10
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
UNKNOWN_BLOB = ("MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN")  # error codes of the distribution specification
NO_REGISTRY = "check that a container registry answers there, and not a proxy or a login page"
KEEP_TRYING = "check that the registry runs, and push again: what it has is not sent twice"
WRONG_NAME = (62, 64)  # OpenSSL's codes for a certificate of another host name or address
EXPIRED = 10
PROXY_REFUSES = re.compile(r"Tunnel connection failed: (4\d\d .*)")  # http.client's words
PROXY_REMEDY = "correct HTTPS_PROXY, or name the registry's host in NO_PROXY"


class TransientError(RegistryError):
    """A second try may work: the connection broke, or the registry is busy or restarting."""

    tries: ClassVar[int | None] = None  # None: as many as the caller allows
    after = 0.0  # seconds that the registry asks to wait before it is asked again


class SilentError(TransientError):
    """No answer in time: one more try may help, more will not."""

    tries = 2


class UnknownBlobError(TransientError):
    """The registry does not see a blob that was sent.

    It may see it a moment later: it writes its link to the blob again when another client sends the same content.
    """

    tries = 3


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; no body where the request was HEAD. `where` says for messages what was asked."""

    status: int
    headers: Message
    body: bytes
    where: str

    def json(self, expected: str) -> dict[str, Any]:
        """The body as a JSON object. Raises RegistryError, which says what was `expected` and never shows the body."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
            found = None
        if not isinstance(found, dict):
            what = f"{len(self.body)} bytes of {self.headers.get_content_type()}"
            raise RegistryError(f"{self.where}: expected {expected} as a JSON object, found {what}", NO_REGISTRY)
        return found


def opener_for(host: str, ca: Path | None) -> urllib.request.OpenerDirector:
    """What opens connections to a registry: certificates checked, proxies as the environment names them.

    Raises RegistryError for a CA bundle that cannot be read.
    """
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(ca)
        except OSError as error:  # ssl.SSLError is one
            raise RegistryError(
                f"{ca}: expected certificates in PEM, found: {error}", "name a CA bundle in DLC_CA_BUNDLE"
            ) from None
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context), _Redirects()]
    if is_loopback(host):
        handlers.append(urllib.request.ProxyHandler({}))  # no proxy reaches our own interface
    return urllib.request.build_opener(*handlers)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects as urllib does, but never from TLS to plain HTTP, nor to FTP: those are answers like others."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """The next request, None for the answer as it stands."""
        if not newurl.startswith("https:" if req.type == "https" else ("http:", "https:")):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow one; urllib leaves the connection open where its Location is no address."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def request(
    opener: urllib.request.OpenerDirector, method: str, url: str, body: bytes | Path | None = None,
    headers: Mapping[str, str] | None = None, authorization: str = "",
) -> Answer:  # fmt: skip
    """Any answer, whatever its status. A body that is a Path is streamed from that file.

    Raises TransientError where the connection failed, RegistryError where it would fail again.
    """
    where = f"{method} {without_query(url)}"
    seconds = UPLOAD_SECONDS if isinstance(body, Path) else ANSWER_SECONDS
    with ExitStack() as stack:
        # Opened before the request, so that a missing file is not taken for a broken connection.
        data = stack.enter_context(body.open("rb")) if isinstance(body, Path) else body
        try:
            asked = urllib.request.Request(url, headers=dict(headers or {}), method=method)  # noqa: S310 (see Session)
            if body is not None:
                asked.data = data
                size = body.stat().st_size if isinstance(body, Path) else len(body)
                asked.add_header("Content-Length", str(size))
                if not asked.has_header("Content-type"):
                    asked.add_header("Content-Type", "application/octet-stream")
            if authorization:
                # Not to be sent where a redirect leads: blobs are often served by a storage service.
                asked.add_unredirected_header("Authorization", authorization)
            try:
                response = stack.enter_context(opener.open(asked, timeout=seconds))
            except urllib.error.HTTPError as error:
                response = stack.enter_context(error)
            content = b"" if method == "HEAD" else _read(response, where)
            return Answer(response.status, response.headers, content, where)
        except (OSError, http.client.HTTPException) as error:
            raise _broken(where, error, seconds) from None
        except ValueError as error:  # an address in a Location or a realm that is none
            raise RegistryError(f"{where}: a broken address: {error}", NO_REGISTRY) from None


def _read(response: IO[bytes], where: str) -> bytes:
    """The whole body, within ANSWER_LIMIT bytes and ANSWER_SECONDS however slowly it comes."""
    end = time.monotonic() + ANSWER_SECONDS
    found = bytearray()
    while block := response.read1(BLOCK):  # type: ignore[attr-defined]
        found += block
        if len(found) > ANSWER_LIMIT:
            raise RegistryError(f"{where}: expected at most {ANSWER_LIMIT >> 20} MiB, found more", NO_REGISTRY)
        if time.monotonic() > end:
            raise SilentError(f"{where}: no whole answer within {ANSWER_SECONDS:g} s", KEEP_TRYING)
    if left := getattr(response, "length", 0):  # read1 takes a body that was cut off for a whole one
        raise http.client.IncompleteRead(bytes(found), left)
    return bytes(found)


def refusal(answer: Answer) -> RegistryError:
    """The error for an unexpected status."""
    text = f"{answer.where}: status {answer.status}{_said(answer.body)}"
    if answer.status in TRANSIENT:
        error = TransientError(text, KEEP_TRYING)
        error.after = _retry_after(answer.headers.get("Retry-After", ""))
        return error
    if any(code in UNKNOWN_BLOB for code, _ in _errors(answer.body)):
        return UnknownBlobError(text, "push again: blobs that the registry has are not sent twice")
    return RegistryError(text, "check what the registry allows: names, paths, sizes, tags")


def _retry_after(text: str) -> float:
    """The header's seconds, or seconds until its date; 0 where it is neither, or past."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max((parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):  # no date, or one without a time zone
        return 0.0


def without_query(url: str) -> str:
    """For messages: queries may hold tokens and signatures."""
    return url.partition("?")[0]


def _broken(where: str, error: Exception, seconds: float) -> RegistryError:
    """The error for a failed connection; transient only if a second try may work."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return RegistryError(f"{where}: {cause.verify_message}", _certificate_remedy(cause.verify_code))
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return RegistryError(f"{where}: no TLS: {cause.reason}", "check that a registry with TLS listens there")
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
        return RegistryError(f"{where}: no host has this name", "check the address after --to")
    if refused := PROXY_REFUSES.search(str(cause)):
        return RegistryError(f"{where}: the proxy refuses: {refused[1]}", PROXY_REMEDY)
    if isinstance(cause, TimeoutError):
        return SilentError(f"{where}: no answer within {seconds:g} s", KEEP_TRYING)
    return TransientError(f"{where}: {cause or type(cause).__name__}", KEEP_TRYING)


def _certificate_remedy(code: int) -> str:
    if code in WRONG_NAME:
        return "push to the name that the registry's certificate has"
    return "renew the registry's certificate" if code == EXPIRED else "name the CA bundle in DLC_CA_BUNDLE"


def _said(body: bytes) -> str:
    """What the registry's JSON says went wrong, else nothing."""
    return "".join(f", {code}: {message}" for code, message in _errors(body))


def _errors(body: bytes) -> list[tuple[str, str]]:
    """Code and message of each error in the registry's JSON; none where it is something else."""
    try:
        return [(str(error.get("code", "")), str(error.get("message", ""))) for error in json.loads(body)["errors"]]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return []
