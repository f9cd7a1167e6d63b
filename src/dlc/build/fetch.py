"""Downloads a file for a build and checks its hash."""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from dlc.core.digests import FOLDER_MODE, MODE, say_damaged, sha256
from dlc.core.drafts import writing
from dlc.core.environment import CA_VARIABLES
from dlc.core.errors import LockError, UsageError
from dlc.core.file_lock import exclusive
from dlc.plan.contexts import Pinned

SECONDS = 60.0  # without a byte
PAUSES = (1.0, 5.0)  # seconds before it is tried again
OTHER_SECONDS = 3600.0  # while another process fetches
BUSY = (http.client.REQUEST_TIMEOUT, http.client.TOO_EARLY, http.client.TOO_MANY_REQUESTS)
LATER = "run again when it can be reached: the bytes received so far are kept"
PROXY_REFUSES = "Tunnel connection failed: 4"  # http.client's words
PROXY_REMEDY = "correct HTTPS_PROXY, or name the host in NO_PROXY"
CHUNK = 1 << 16  # bytes; a kill loses no more
FILE = "file"  # name of every downloaded file in its folder


def folder(context: Pinned, cache: Path, ca: Path | None) -> Path:
    """A folder in the cache that holds only the file, under the name FILE.

    Raises LockError if the file cannot be downloaded or has another hash; such a file is deleted. A cached file is not
    downloaded again while it has its hash, and an interrupted download is continued.
    """
    target = cache / "pinned" / context.sha256
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(target.parent, OTHER_SECONDS):  # one process at a time
        if not ((target / FILE).is_file() and sha256(target / FILE) == context.sha256):
            say_damaged(target / FILE)
            part = target.with_suffix(".part")
            _fetch(context.address, part, ca)
            _require_hash(context.sha256, context.address, part)
            target.mkdir(exist_ok=True)
            part.replace(target / FILE)
        (target / FILE).chmod(MODE)
        target.chmod(FOLDER_MODE)
    return target


def _require_hash(expected: str, url: str, part: Path) -> None:
    if (found := sha256(part)) != expected:
        part.unlink()
        raise LockError(
            f"{url}: expected sha256 {expected}, found {found}; it was not unpacked",
            "compare with the hash that its publisher states: the address or the hash in the buildspec is wrong",
        )


class _PassingError(LockError):
    """A fault of the network or the server that may be over in a moment."""


def _fetch(url: str, part: Path, ca: Path | None) -> None:
    """Download the file into `part`; again after a fault that may pass."""
    context = _trusted(ca)
    for pause in PAUSES:
        try:
            return _fetch_once(url, part, context)
        except _PassingError as error:
            print(f"dlc: {error.message}; tried again in {pause:g} s", file=sys.stderr, flush=True)
        time.sleep(pause)
    return _fetch_once(url, part, context)


def _fetch_once(url: str, part: Path, context: ssl.SSLContext) -> None:
    """Download the file, after the bytes that are there if the server can continue."""
    have = part.stat().st_size if part.exists() else 0
    try:
        request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
        with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:  # noqa: S310
            continued = getattr(answer, "status", None) == http.client.PARTIAL_CONTENT
            _receive(answer, part, "ab" if continued else "wb")
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # the file is complete
        busy = error.code in BUSY or error.code >= http.client.INTERNAL_SERVER_ERROR
        if busy:
            raise _PassingError(f"{url}: {error}", LATER) from None
        raise LockError(f"{url}: {error}", "correct the address in the buildspec") from None
    except http.client.InvalidURL as error:
        raise _no_address(url, error) from None
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        if PROXY_REFUSES in str(cause):
            raise LockError(f"{url}: {cause}", PROXY_REMEDY) from None
        raise (_PassingError if _may_pass(cause) else LockError)(f"{url}: {cause}", LATER) from None
    except ValueError as error:
        raise _no_address(url, error) from None


def _may_pass(cause: object) -> bool:
    """Not a certificate that nobody trusts, and not a name that does not exist."""
    if isinstance(cause, socket.gaierror):
        return cause.errno == socket.EAI_AGAIN
    return not isinstance(cause, ssl.SSLCertVerificationError)


def _no_address(url: str, error: Exception) -> LockError:
    """Of the file, or of the proxy that a variable names."""
    return LockError(
        f"{url}: expected an address, found: {error}",
        "correct the address, or HTTP_PROXY and HTTPS_PROXY if it is right",
    )


def _trusted(ca: Path | None) -> ssl.SSLContext:
    """Raises UsageError for a bundle that holds no certificates."""
    try:
        return ssl.create_default_context(cafile=str(ca) if ca else None)
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(
            f"{ca}: expected certificates in PEM, found: {error.strerror}", f"name a CA bundle in {CA_VARIABLES[0]}"
        ) from None


def _receive(answer: Any, part: Path, mode: str) -> None:
    """Append an answer's bytes. Raises IncompleteRead when fewer came than were promised."""
    with writing(part.parent):
        file = part.open(mode)
    try:
        while chunk := answer.read(CHUNK):
            with writing(part.parent):
                file.write(chunk)
    finally:
        with writing(part.parent):
            file.close()
    if getattr(answer, "length", 0):
        raise http.client.IncompleteRead(b"", answer.length)
