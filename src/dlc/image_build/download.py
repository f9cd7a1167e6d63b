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

from dlc.core import tls
from dlc.core.atomic_files import hold_lock, report_disk_errors
from dlc.core.digests import FOLDER_MODE, MODE, hash_file, say_damaged
from dlc.core.environment import CA_VARIABLES
from dlc.core.errors import LockError, UsageError
from dlc.plan.contexts import Pinned

# Without a byte for so long, a download has failed.
SECONDS = 60.0
# Before it is tried again.
PAUSES_SECONDS = (1.0, 5.0)
# For so long another process may fetch.
OTHER_SECONDS = 3600.0
BUSY = (http.client.REQUEST_TIMEOUT, http.client.TOO_EARLY, http.client.TOO_MANY_REQUESTS)
LATER = "run again when it can be reached: the bytes received so far are kept"
# http.client begins its message so.
PROXY_REFUSES = "Tunnel connection failed: 4"
PROXY_REMEDY = "correct HTTPS_PROXY, or name the host in NO_PROXY"
# A kill loses no more.
CHUNK_BYTES = 1 << 16
# The name of every downloaded file in its folder.
FILE = "file"


def fetch(context: Pinned, cache: Path, ca: Path | None) -> Path:
    """Return a folder in the cache that holds only the file, under the name FILE.

    Raises LockError if the file cannot be downloaded or has another hash; such a file is deleted. A cached file is not
    downloaded again while it has its hash, and an interrupted download is continued.
    """
    target = cache / "pinned" / context.sha256
    target.parent.mkdir(parents=True, exist_ok=True)
    # Only one process downloads at a time.
    with hold_lock(target.parent, OTHER_SECONDS):
        if not ((target / FILE).is_file() and hash_file(target / FILE) == context.sha256):
            say_damaged(target / FILE)
            part = target.with_suffix(".part")
            _download(context.address, part, ca)
            _require_hash(context.sha256, context.address, part)
            target.mkdir(exist_ok=True)
            part.replace(target / FILE)
        (target / FILE).chmod(MODE)
        target.chmod(FOLDER_MODE)
    return target


def _require_hash(expected: str, url: str, part: Path) -> None:
    if (found := hash_file(part)) != expected:
        part.unlink()
        raise LockError(
            f"{url}: expected sha256 {expected}, found {found}; it was not unpacked",
            "compare with the hash that its publisher states: the address or the hash is wrong",
        )


class _PassingError(LockError):
    """A fault of the network or the server that may be over in a moment."""


def _download(url: str, part: Path, ca: Path | None) -> None:
    """Download the file into `part`; again after a fault that may pass."""
    context = _make_ssl_context(ca)
    for pause in PAUSES_SECONDS:
        try:
            return _download_once(url, part, context)
        except _PassingError as error:
            print(f"dlc: {error.message}; tried again in {pause:g} s", file=sys.stderr, flush=True)
        time.sleep(pause)
    return _download_once(url, part, context)


def _download_once(url: str, part: Path, context: ssl.SSLContext) -> None:
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
            # The file is complete.
            return
        busy = error.code in BUSY or error.code >= http.client.INTERNAL_SERVER_ERROR
        if busy:
            raise _PassingError(f"{url}: {error}", LATER) from None
        raise LockError(f"{url}: {error}", "correct the address in the buildspec, or in dlc.yml") from None
    except http.client.InvalidURL as error:
        raise _address_error(url, error) from None
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        if PROXY_REFUSES in str(cause):
            raise LockError(f"{url}: {cause}", PROXY_REMEDY) from None
        raise (_PassingError if _may_pass(cause) else LockError)(f"{url}: {cause}", LATER) from None
    except ValueError as error:
        raise _address_error(url, error) from None


def _may_pass(cause: object) -> bool:
    """Tell whether a fault may pass: no certificate that nobody trusts, and no name that does not exist."""
    if isinstance(cause, socket.gaierror):
        return cause.errno == socket.EAI_AGAIN
    return not isinstance(cause, ssl.SSLCertVerificationError)


def _address_error(url: str, error: Exception) -> LockError:
    """Return the error for a malformed address: the file's, or that of a proxy in a variable."""
    return LockError(
        f"{url}: expected an address, found: {error}",
        "correct the address, or HTTP_PROXY and HTTPS_PROXY if it is right",
    )


def _make_ssl_context(ca: Path | None) -> ssl.SSLContext:
    """Make a TLS context with these authorities. Raises UsageError for a bundle that holds no certificates."""
    try:
        return tls.make_context(ca)
    except OSError as error:
        # ssl.SSLError is an OSError.
        raise UsageError(
            f"{ca}: expected certificates in PEM, found: {error.strerror}", f"name a CA bundle in {CA_VARIABLES[0]}"
        ) from None


def _receive(answer: Any, part: Path, mode: str) -> None:
    """Append an answer's bytes. Raises IncompleteRead when fewer came than were promised."""
    with report_disk_errors(part.parent):
        file = part.open(mode)
    try:
        while chunk := answer.read(CHUNK_BYTES):
            with report_disk_errors(part.parent):
                file.write(chunk)
    finally:
        with report_disk_errors(part.parent):
            file.close()
    if getattr(answer, "length", 0):
        raise http.client.IncompleteRead(b"", answer.length)
