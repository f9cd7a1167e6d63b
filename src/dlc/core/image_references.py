"""Docker references of images: which registry a reference names is decided here, for the registry room and all places.

Docker's rule: what stands before the first slash is a registry if it has a dot or a port, or is `localhost`. Without a
registry the reference is one of Docker Hub, or of an image that this machine's engine has.
"""

from __future__ import annotations

import re

# A part of a host's name.
PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
REGISTRY = re.compile(rf"(?:{PART}(?:\.{PART})*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?")
HIGHEST_PORT = (1 << 16) - 1


def split_registry(reference: str) -> tuple[str, str]:
    """Return the registry that a reference names, empty if it names none, and the rest of the reference."""
    first, slash, rest = reference.partition("/")
    return (first, rest) if slash and _is_registry(first) else ("", reference)


def _is_registry(text: str) -> bool:
    found = REGISTRY.fullmatch(text)
    if not found or not (set(".:") & set(text) or text == "localhost"):
        return False
    return found["port"] is None or 0 < int(found["port"]) <= HIGHEST_PORT


def is_reference(word: str) -> bool:
    """Tell whether a word can only be a Docker reference: no image of the buildspec has such an identifier."""
    return bool(set(word) & set(":/@"))
