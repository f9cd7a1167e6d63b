"""How many bytes the files of a lock are: as the index says, else by asking the server of each file for its length."""

from __future__ import annotations

import os
import ssl
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dlc.buildspec.variant import normal_name
from dlc.core.environment import ca_bundle
from dlc.core.errors import LockError

SECONDS = 60.0
CONNECTIONS = 8


def sizes(pylock: str) -> dict[str, int]:
    """Normal package name -> bytes of the file that would be installed, from a pylock.toml (PEP 751).

    Where several wheels would do, of the largest whose size is known. Raises LockError when a server does not answer.
    """
    packages = tomllib.loads(pylock).get("packages", [])
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        found = list(pool.map(_size, packages))
    return {normal_name(package["name"]): size for package, size in zip(packages, found, strict=True)}


def _size(package: Mapping[str, Any]) -> int:
    files = package.get("wheels") or [package[kind] for kind in ("sdist", "archive") if kind in package]
    known = [int(file["size"]) for file in files if "size" in file]
    # The wheels of one package for one platform are alike in size: one question is enough.
    return max(known) if known else _length(files[-1].get("url") or files[-1]["path"])


def _length(address: str) -> int:
    """Bytes of a file at a URL or a path."""
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path)).stat().st_size
    context = ssl.create_default_context(cafile=ca_bundle(os.environ))
    question = urllib.request.Request(address, method="HEAD")  # noqa: S310 (an address that the index gave)
    try:
        with urllib.request.urlopen(question, timeout=SECONDS, context=context) as answer:  # noqa: S310
            return int(answer.headers["Content-Length"])
    except (urllib.error.URLError, TimeoutError, TypeError) as error:
        raise LockError(
            f"{parts.hostname}{parts.path}: its length: {error}", "see that the package index answers"
        ) from None
