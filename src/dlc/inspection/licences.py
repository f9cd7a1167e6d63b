"""Licence names as Debian and Python packages write them, as SPDX licence expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Identifiers of the SPDX list that packages of our images use; whatever is not here becomes a LicenseRef.
IDENTIFIERS = (
    "0BSD", "AFL-2.1", "Apache-1.1", "Apache-2.0", "Artistic-1.0-Perl", "Artistic-2.0", "Beerware",
    "BSD-1-Clause", "BSD-2-Clause", "BSD-3-Clause", "BSD-4-Clause", "BSD-4-Clause-UC", "BSL-1.0", "bzip2-1.0.6",
    "CC-BY-3.0", "CC-BY-4.0", "CC0-1.0", "CNRI-Python", "CPL-1.0", "curl", "FSFAP", "FSFUL", "FSFULLR",
    "GFDL-1.2-only", "GFDL-1.2-or-later", "GFDL-1.3-only", "GFDL-1.3-or-later", "GPL-1.0-only",
    "GPL-1.0-or-later", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "HPND", "ICU",
    "ISC", "JasPer-2.0", "Latex2e", "LGPL-2.0-only", "LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later",
    "LGPL-3.0-only", "LGPL-3.0-or-later", "Libpng", "libtiff", "MIT", "MIT-0", "MIT-CMU", "MPL-1.1", "MPL-2.0",
    "MS-PL", "NCSA", "OpenSSL", "PSF-2.0", "Python-2.0", "Sleepycat", "TCL", "Unicode-DFS-2016", "Unlicense",
    "Vim", "X11", "Zlib", "ZPL-2.1",
)  # fmt: skip
EXCEPTIONS = ("LLVM-exception", "GCC-exception-3.1", "Linux-syscall-note", "Classpath-exception-2.0")
# Lower case, other spelling -> identifier. Debian's names: the common licences and its copyright format 1.0.
SPELLINGS = {
    "apache-2": "Apache-2.0", "apache 2.0": "Apache-2.0", "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "artistic-2": "Artistic-2.0",
    "3-clause bsd license": "BSD-3-Clause", "bsd 3-clause license": "BSD-3-Clause", "bsl-1": "BSL-1.0",
    "cc0": "CC0-1.0", "expat": "MIT", "mit license": "MIT", "gpl": "GPL-1.0-or-later", "gpl-1": "GPL-1.0-only",
    "gfdl": "GFDL-1.2-or-later", "isc license (iscl)": "ISC", "lgpl": "LGPL-2.0-or-later", "lgpl-2": "LGPL-2.0-only",
    "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0", "psf": "PSF-2.0", "the unlicense (unlicense)": "Unlicense",
    "python software foundation license": "PSF-2.0", "zope public license": "ZPL-2.1",
}  # fmt: skip
KNOWN = {identifier.lower(): identifier for identifier in IDENTIFIERS} | SPELLINGS
OPERATORS = {"and": "AND", "or": "OR", "and/or": "OR"}


def declared(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """One expression for all that a package names (each applies to a part of it), and name by LicenseRef used in it.

    `NOASSERTION` where the package names none.
    """
    parts: list[str] = []
    references: dict[str, str] = {}
    for name in names:
        text, found = _expression(name)
        parts.append(f"({text})" if " OR " in text and len(names) > 1 and not text.startswith("(") else text)
        references |= found
    return " AND ".join(dict.fromkeys(parts)) or "NOASSERTION", references


def _expression(name: str) -> tuple[str, dict[str, str]]:
    """One name, which may itself be an expression: SPDX's, or Debian's `GPL-2+ or Artistic`."""
    words = re.split(r"\s+(AND|OR|and/or|and|or)\s+", name.strip().replace(", and ", " and "))
    operands, operators = words[::2], [OPERATORS[word.lower()] for word in words[1::2]]
    if not operators or name.lower() in KNOWN:
        return _single(name.strip())
    if "(" in name or len(set(operators)) > 1:
        return (name, {}) if _is_spdx(name) else _reference(name)
    references: dict[str, str] = {}
    texts = []
    for operand in operands:
        text, found = _single(operand)
        texts.append(text)
        references |= found
    return f" {operators[0]} ".join(texts), references


def _single(name: str) -> tuple[str, dict[str, str]]:
    if found := KNOWN.get(name.lower()) or _gnu(name):
        return found, {}
    return (name, {}) if _is_spdx(name) else _reference(name)


def _gnu(name: str) -> str | None:
    """Debian's `GPL-2+` and `LGPL-3.0`: the plus means or later."""
    match = re.fullmatch(r"(GPL|LGPL|GFDL)-(\d)(\.\d)?(\+?)", name, re.IGNORECASE)
    if match is None:
        return None
    suffix = "-or-later" if match[4] else "-only"
    return KNOWN.get(f"{match[1]}-{match[2]}{match[3] or '.0'}{suffix}".lower())


def _is_spdx(text: str) -> bool:
    """Whether all of a text is known: identifiers, operators in capitals, exceptions after WITH."""
    words = re.sub(r"[()]", " ", text).split()
    legal = {*IDENTIFIERS, *EXCEPTIONS, "AND", "OR", "WITH"}
    return bool(words) and all(word in legal for word in words)


def _reference(name: str) -> tuple[str, dict[str, str]]:
    words = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
    identifier = "LicenseRef-" + (words or name.encode().hex() or "empty")
    return identifier, {identifier: name}
