"""Licence names as Debian and Python packages write them, as SPDX licence expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from license_expression import BaseSymbol, ExpressionError, Licensing, get_spdx_licensing  # type: ignore[import-untyped]

# What the library raises for text that is no expression: `()` and `( or a` among it.
NOT_PARSED = (ExpressionError, TypeError, IndexError, AssertionError)
# What packages write and SPDX's list does not have, in lower case: Debian's short names, and Python's classifiers.
SPELLINGS = {
    "apache-2": "Apache-2.0", "apache 2.0": "Apache-2.0", "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "artistic-2": "Artistic-2.0",
    "3-clause bsd license": "BSD-3-Clause", "bsd 3-clause license": "BSD-3-Clause", "bsl-1": "BSL-1.0",
    "boost software license 1.0 (bsl-1.0)": "BSL-1.0", "cc0": "CC0-1.0", "expat": "MIT", "mit license": "MIT",
    "european union public licence 1.1 (eupl 1.1)": "EUPL-1.1", "gfdl": "GFDL-1.2-or-later",
    "european union public licence 1.2 (eupl 1.2)": "EUPL-1.2", "gpl": "GPL-1.0-or-later",
    "gnu affero general public license v3": "AGPL-3.0-only", "isc license (iscl)": "ISC", "lgpl": "LGPL-2.0-or-later",
    "historical permission notice and disclaimer (hpnd)": "HPND", "mozilla public license 1.1 (mpl 1.1)": "MPL-1.1",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0", "postgresql license": "PostgreSQL", "psf": "PSF-2.0",
    "python software foundation license": "PSF-2.0", "the unlicense (unlicense)": "Unlicense",
    "zope public license": "ZPL-2.1",
}  # fmt: skip
# Debian's `GPL-2+` and `LGPL-3.0`, and the short form in classifiers, `(AGPLv3+)`: the plus means or later.
GNU = re.compile(r"(?:.*\()?(GPL|LGPL|AGPL|GFDL)(?:-|v)(\d)(\.\d)?(\+?)\)?", re.IGNORECASE)
OPERATORS = {"and": "AND", "or": "OR", "and/or": "OR"}
JOINTS = re.compile(r"([()])|(?<=[\s)])(and/or|and|or)(?=[\s(])", re.IGNORECASE)

References = dict[str, str]  # LicenseRef -> the name that it stands for


def declared(names: Sequence[str]) -> tuple[str, References]:
    """One expression for all that a package names (each applies to a part of it), and the references used in it.

    `NOASSERTION` where the package names none.
    """
    parts: list[str] = []
    references: References = {}
    for name in names:
        text, found = _expression(name.strip())
        parts.append(f"({text})" if " OR " in text and len(names) > 1 else text)
        references |= found
    return " AND ".join(dict.fromkeys(parts)) or "NOASSERTION", references


def _expression(name: str) -> tuple[str, References]:
    """One name, which may itself be an expression: SPDX's, or Debian's `GPL-2+ or Artistic`."""
    if known := _single(name):
        return known, {}
    references: References = {}
    words: list[str] = []
    for word in filter(None, (part.strip(", ") for part in JOINTS.split(name) if part)):
        if word in "()" or word.lower() in OPERATORS:
            words.append(OPERATORS.get(word.lower(), word))
        else:
            text, found = _operand(word)
            words.append(text)
            references |= found
    try:
        parsed = Licensing().parse(" ".join(words))
    except NOT_PARSED:  # the parentheses and operators of a sentence
        parsed = None
    return (str(parsed.render()), references) if parsed is not None else _reference(name)


def _operand(name: str) -> tuple[str, References]:
    found = _single(name)
    return (found, {}) if found else _reference(name)


def _single(name: str) -> str | None:
    """A licence that SPDX knows, with an exception or without; None for every other text."""
    base, joint, exception = _spelled(name).partition(" WITH ")
    found = _listed(f"{_gnu(base) or base}{joint}{exception}")
    # The library also has names of its own for licences that are not on SPDX's list.
    return None if found is None or "LicenseRef" in found else found


def _spelled(name: str) -> str:
    return SPELLINGS.get(name.lower()) or re.sub(r"\s+with\s+", " WITH ", name, flags=re.IGNORECASE)


def _gnu(name: str) -> str | None:
    match = GNU.fullmatch(name)
    if match is None:
        return None
    return f"{match[1].upper()}-{match[2]}{match[3] or '.0'}-{'or-later' if match[4] else 'only'}"


@cache
def _spdx() -> Licensing:
    return get_spdx_licensing()


@cache
def _listed(text: str) -> str | None:
    """A licence as SPDX's list spells it; None for expressions with operators and for what is not on the list."""
    try:
        found = _spdx().parse(text, validate=True, strict=True)
    except NOT_PARSED:
        return None
    return str(found.render()) if isinstance(found, BaseSymbol) else None


def _reference(name: str) -> tuple[str, References]:
    words = re.sub(r"[^A-Za-z0-9.]+", "-", name.removeprefix("LicenseRef-").replace("+", "-plus")).strip("-")
    identifier = "LicenseRef-" + (words or name.encode().hex() or "empty")
    return identifier, {identifier: name}
