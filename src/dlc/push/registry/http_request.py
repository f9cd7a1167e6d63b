"""One HTTP request: what came back as a value, what went wrong on the way as a typed error."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from dlc.core.errors import RegistryError
from dlc.push.registry.address import is_loopback

TIMEOUT_SECONDS = 300.0  # of one read or write: a registry hashes a layer of gigabytes before it answers
ANSWER_LIMIT = 16 << 20  # bytes; manifests and configurations are some kilobytes
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
KEEP_TRYING = "see whether the registry runs, and try again: what was uploaded is kept"


class TransientError(RegistryError):
    """It may work in a moment: the connection broke, or the registry is busy or restarting."""


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; no body where the request was HEAD."""

    status: int
    headers: Message
    body: bytes


def opener_for(host: str, ca: Path | None) -> urllib.request.OpenerDirector:
    """What opens connections to a registry: certificates checked, proxies as the environment names them."""
    if is_loopback(host):
        return urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy reaches our own interface
    context = ssl.create_default_context()
    if ca:
        context.load_verify_locations(ca)
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))


def request(
    opener: urllib.request.OpenerDirector, method: str, url: str, body: bytes | Path | None = None,
    headers: Mapping[str, str] | None = None, authorization: str = "",
) -> Answer:  # fmt: skip
    """Any answer, whatever its status. A body that is a Path is streamed from that file.

    Raises TransientError where the connection failed, RegistryError where it would fail again.
    """
    asked = urllib.request.Request(url, headers=dict(headers or {}), method=method)  # noqa: S310 (http and https only)
    with ExitStack() as stack:
        if body is not None:
            asked.data = stack.enter_context(body.open("rb")) if isinstance(body, Path) else body
            size = body.stat().st_size if isinstance(body, Path) else len(body)
            asked.add_header("Content-Length", str(size))
            if not asked.has_header("Content-type"):
                asked.add_header("Content-Type", "application/octet-stream")
        if authorization:
            # Not to be sent where a redirect leads: blobs are often served by a storage service.
            asked.add_unredirected_header("Authorization", authorization)
        try:
            try:
                response = stack.enter_context(opener.open(asked, timeout=TIMEOUT_SECONDS))
            except urllib.error.HTTPError as error:
                response = stack.enter_context(error)
            content = b"" if method == "HEAD" else response.read(ANSWER_LIMIT)
            return Answer(response.status, response.headers, content)
        except (OSError, http.client.HTTPException) as error:
            raise _broken(f"{method} {without_query(url)}", error) from None


def refusal(method: str, url: str, answer: Answer) -> RegistryError:
    """The error for a status that was not hoped for."""
    text = f"{method} {without_query(url)}: status {answer.status}{_said(answer.body)}"
    if answer.status in TRANSIENT:
        return TransientError(text, KEEP_TRYING)
    return RegistryError(text, "see what the registry allows: its name, path, size or tag rules")


def without_query(url: str) -> str:
    """For messages: queries may hold tokens and signatures."""
    return url.partition("?")[0]


def _broken(where: str, error: Exception) -> RegistryError:
    """The error that a failed connection is reported as; what cannot mend itself is not transient."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return RegistryError(f"{where}: {cause.verify_message}", "name the CA bundle in DLC_CA_BUNDLE")
    if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
        return RegistryError(f"{where}: no host has this name", "see the address after --to")
    return TransientError(f"{where}: {cause or type(cause).__name__}", KEEP_TRYING)


def _said(body: bytes) -> str:
    """What the registry's JSON says went wrong, else nothing."""
    try:
        errors = json.loads(body)["errors"]
        return "".join(f", {error.get('code', '')}: {error.get('message', '')}" for error in errors)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""
