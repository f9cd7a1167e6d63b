"""Fetches a file that a build takes from elsewhere by its hash, and never another one."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from dlc.core.errors import LockError
from dlc.plan.contexts import Pinned

SECONDS = 60.0  # without a byte
CHUNK = 1 << 20
FILE = "file"  # what a downloaded file is called in its folder, wherever it came from


def folder(context: Pinned, cache: Path, ca: Path | None) -> Path:
    """A folder in the cache that holds nothing but the file, whose name is FILE.

    Raises LockError where the hash is another one, or where the file cannot be had; the cache holds no file of
    another hash afterwards. A file of the right hash is never fetched again; one that broke off is continued.
    """
    sha256, url = context.sha256, context.address
    house = cache / "pinned" / sha256
    if (house / FILE).is_file():
        return house
    part = cache / "pinned" / f"{sha256}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    _fetch(url, part, ca)
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        part.unlink()
        raise LockError(
            f"{url}: expected sha256 {sha256}, found {found}; it was not unpacked",
            "compare with the hash that its publisher states: the address or the hash in the buildspec is wrong",
        )
    house.mkdir(exist_ok=True)
    part.rename(house / FILE)
    return house


def _fetch(url: str, part: Path, ca: Path | None) -> None:
    """The whole file into `part`, after what is there already where the server can continue."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    context = ssl.create_default_context(cafile=str(ca) if ca else None)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:  # noqa: S310
            continued = getattr(answer, "status", None) == http.client.PARTIAL_CONTENT
            with part.open("ab" if continued else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
            if getattr(answer, "length", 0):  # bytes that were promised and did not come
                raise http.client.IncompleteRead(b"", answer.length)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is there
        raise LockError(f"{url}: {error}", "correct the address in the buildspec") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise LockError(f"{url}: {reason}", "run again where it can be reached: what came is kept") from None
