"""What pages of the docs tell a reader to type, for the tests that do it."""

from __future__ import annotations

import re


def find_blocks(page: str, language: str = "") -> list[str]:
    """Return the page's fenced blocks of a language; those of commands name none."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for named, text in blocks if named == language]
