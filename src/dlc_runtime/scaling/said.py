"""Whether a failed training said that memory ended. Pure."""

from __future__ import annotations

import re

# What the frameworks, the C++ runtime and the kernel say.
SAYS_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|\bOOM\b|can't allocate memory|not enough memory|Cannot allocate memory"
    r"|MemoryError|std::bad_alloc|RESOURCE_EXHAUSTED|ResourceExhaustedError|ALLOC_FAILED|Unable to allocate"
)


def says_memory(text: str) -> str:
    """The words that say so, "" where none do."""
    found = SAYS_MEMORY.search(text)
    return found[0] if found else ""
