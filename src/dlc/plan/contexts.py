"""Context values for what a build takes from elsewhere by its hash: a downloaded file, or a folder of the host."""

from __future__ import annotations

KIND = "pinned:"


def value(sha256: str, origin: str) -> str:
    """`pinned:SHA256@ORIGIN`, where ORIGIN is an address or a folder."""
    return f"{KIND}{sha256}@{origin}"


def parts(context: str) -> tuple[str, str]:
    """(SHA256, ORIGIN) of such a value."""
    sha256, _, origin = context.removeprefix(KIND).partition("@")
    return sha256, origin


def without_origin(context: str) -> str:
    """What a content key may see of a context value: where something came from is no part of what it is."""
    return context.partition("@")[0] if context.startswith(KIND) else context
