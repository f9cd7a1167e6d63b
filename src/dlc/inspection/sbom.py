"""The software bill of materials of an image, an SPDX 2.3 document, made from its facts, with SPDX licences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote

from license_expression import BaseSymbol, ExpressionError, Licensing, get_spdx_licensing  # type: ignore[import-untyped]

from dlc.buildspec.variant import normal_name
from dlc.core.labels import KEY, LICENSES, VERSION
from dlc.inspection.facts import Facts, Package

DOCUMENT, IMAGE = "SPDXRef-DOCUMENT", "SPDXRef-image"
UNKNOWN = "NOASSERTION"
Json = dict[str, Any]
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

# LicenseRef -> the name that it stands for.
References = dict[str, str]


def make_document(facts: Facts) -> Json:
    """Return SPDX 2.3 as a value for JSON. Equal facts give an equal document: its time is the image's own.

    The image contains every package; packages depend on those of the same kind that are installed, the launcher on
    Debian's. A package's hash is SPDX's verification code over its files as they are in the image; the image's is its
    digest.
    """
    whole = facts.labels.get(LICENSES, UNKNOWN)
    references: dict[str, str] = {name: name for name in re.findall(r"LicenseRef-[A-Za-z0-9.-]+", whole)}
    packages = [_describe_image(facts)]
    for package in facts.packages:
        expression, found = declared_licences(package.licences)
        references |= found
        packages.append(_describe_package(package, expression, facts.os))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": facts.ref,
        "documentNamespace": f"urn:dlc:sbom:{facts.digest.removeprefix('sha256:')}",
        "creationInfo": {"created": cut_to_seconds(facts.created), "creators": ["Tool: dlc"]},
        "packages": packages,
        "hasExtractedLicensingInfos": [
            _make_extracted(identifier, name) for identifier, name in sorted(references.items())
        ],
        "relationships": _list_relationships(facts.packages),
    }


def render_json(facts: Facts) -> str:
    """Return the document as `dlc sbom` writes it and `dlc push` attaches it."""
    return json.dumps(make_document(facts), indent=1) + "\n"


def _describe_image(facts: Facts) -> Json:
    algorithm, _, digest = facts.digest.partition(":")
    return {
        "SPDXID": IMAGE,
        "name": facts.ref,
        "versionInfo": facts.labels.get(VERSION, UNKNOWN),
        "primaryPackagePurpose": "CONTAINER",
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "checksums": [{"algorithm": algorithm.upper(), "checksumValue": digest}],
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": facts.labels.get(LICENSES, UNKNOWN),
        "copyrightText": UNKNOWN,
        "comment": f"{facts.os}, Python {facts.python}, content key {facts.labels.get(KEY, 'none')}",
    }


def _describe_package(package: Package, expression: str, os: str) -> Json:
    value: Json = {
        "SPDXID": make_identifier(package),
        "name": package.name,
        "versionInfo": package.version,
        "supplier": f"Organization: {os.partition(' ')[0]}" if package.kind == "debian" else UNKNOWN,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": bool(package.verification),
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": expression,
        "copyrightText": UNKNOWN,
        "externalRefs": [_make_locator(make_package_url(package, os))],
    }
    if package.verification:
        value["packageVerificationCode"] = {"packageVerificationCodeValue": package.verification}
    if re.fullmatch(r"https?://[^\s]+", package.homepage):
        value["homepage"] = package.homepage
    if package.source:
        value["sourceInfo"] = f"built from the source package {package.source} {package.source_version}"
    return value


def _make_locator(url: str) -> Json:
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}


def make_package_url(package: Package, os: str) -> str:
    """Return the package URL, by which scanners find advisories. Debian's has the release and the source package."""
    name, version = package.name, quote(package.version)
    if package.kind == "debian":
        vendor = os.partition(" ")[0].lower()
        release = f"&distro={vendor}-{found[1]}" if (found := re.search(r" (\d+(?:\.\d+)?)", os)) else ""
        source = quote(f"{package.source}@{package.source_version}", safe="")
        return f"pkg:deb/{vendor}/{quote(name)}@{version}?arch={package.architecture}{release}&upstream={source}"
    if package.kind == "python":
        return f"pkg:pypi/{normal_name(name)}@{version}"
    return f"pkg:generic/{name}@{version}"


def _make_extracted(reference: str, name: str) -> Json:
    text = f"Named {name!r} by packages of this image; the text is in their copyright file or metadata."
    return {"licenseId": reference, "name": name, "extractedText": text}


def _list_relationships(packages: tuple[Package, ...]) -> list[Json]:
    """State that the document describes the image, which contains the packages, and which depend on others."""
    found = [_make_relationship(DOCUMENT, "DESCRIBES", IMAGE)]
    found += [_make_relationship(IMAGE, "CONTAINS", make_identifier(package)) for package in packages]
    for own, others in map_dependencies(packages).items():
        found += [_make_relationship(own, "DEPENDS_ON", other) for other in others]
    return found


def map_dependencies(packages: tuple[Package, ...]) -> Mapping[str, Sequence[str]]:
    """Map each package's identifier to those of the installed packages that it requires, sorted."""
    known = _map_providers(packages)
    found = {}
    for package in packages:
        kind = "debian" if package.kind == "dlc" else package.kind
        own = make_identifier(package)
        wanted = {known.get((kind, normal_name(name))) for name in package.requires} - {None, own}
        found[own] = sorted(map(str, wanted))
    return found


def _map_providers(packages: tuple[Package, ...]) -> Mapping[tuple[str, str], str]:
    """Map kind and name to identifiers; a package of that name goes before one that only provides it."""
    provided = {(p.kind, normal_name(name)): make_identifier(p) for p in packages for name in p.provides}
    return provided | {(p.kind, normal_name(p.name)): make_identifier(p) for p in packages}


def _make_relationship(one: str, kind: str, other: str) -> Json:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def make_identifier(package: Package) -> str:
    """Return `SPDXRef-debian-libstdc-2b-2b-6`: letters, digits, dots and dashes; other characters as hex codes."""
    words = f"{package.kind}-{package.name}" + (f"-{package.architecture}" if package.architecture else "")
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda match: f"-{ord(match[0]):02x}-", words)


def cut_to_seconds(created: str) -> str:
    """Return a time without the fraction that engines write and SPDX does not allow."""
    return re.sub(r"\.\d+", "", created)


def declared_licences(names: Sequence[str]) -> tuple[str, References]:
    """Return one expression for all that a package names, and the references used in it.

    Each name applies to a part of the package.

    `NOASSERTION` if the package names none.
    """
    parts: list[str] = []
    references: References = {}
    for name in names:
        text, found = _licence_expression(name.strip())
        parts.append(f"({text})" if " OR " in text and len(names) > 1 else text)
        references |= found
    return " AND ".join(dict.fromkeys(parts)) or "NOASSERTION", references


def _licence_expression(name: str) -> tuple[str, References]:
    """Parse one name, which may itself be an expression: SPDX's, or Debian's `GPL-2+ or Artistic`."""
    if known := _parse_single(name):
        return known, {}
    references: References = {}
    words: list[str] = []
    for word in filter(None, (part.strip(", ") for part in JOINTS.split(name) if part)):
        if word in "()" or word.lower() in OPERATORS:
            words.append(OPERATORS.get(word.lower(), word))
        else:
            text, found = _parse_operand(word)
            words.append(text)
            references |= found
    try:
        parsed = Licensing().parse(" ".join(words))
    except NOT_PARSED:
        # These are the parentheses and operators of a sentence.
        parsed = None
    return (str(parsed.render()), references) if parsed is not None else _licence_reference(name)


def _parse_operand(name: str) -> tuple[str, References]:
    found = _parse_single(name)
    return (found, {}) if found else _licence_reference(name)


def _parse_single(name: str) -> str | None:
    """Return a licence that SPDX knows, with an exception or without; None for every other text."""
    base, joint, exception = _fix_spelling(name).partition(" WITH ")
    found = _find_listed(f"{_parse_gnu(base) or base}{joint}{exception}")
    # The library also has names of its own for licences that are not on SPDX's list.
    return None if found is None or "LicenseRef" in found else found


def _fix_spelling(name: str) -> str:
    return SPELLINGS.get(name.lower()) or re.sub(r"\s+with\s+", " WITH ", name, flags=re.IGNORECASE)


def _parse_gnu(name: str) -> str | None:
    match = GNU.fullmatch(name)
    if match is None:
        return None
    return f"{match[1].upper()}-{match[2]}{match[3] or '.0'}-{'or-later' if match[4] else 'only'}"


@cache
def _load_spdx() -> Licensing:
    return get_spdx_licensing()


@cache
def _find_listed(text: str) -> str | None:
    """Return a licence as SPDX's list spells it; None for expressions with operators and for unlisted names."""
    try:
        found = _load_spdx().parse(text, validate=True, strict=True)
    except NOT_PARSED:
        return None
    return str(found.render()) if isinstance(found, BaseSymbol) else None


def _licence_reference(name: str) -> tuple[str, References]:
    words = re.sub(r"[^A-Za-z0-9.]+", "-", name.removeprefix("LicenseRef-").replace("+", "-plus")).strip("-")
    identifier = "LicenseRef-" + (words or name.encode().hex() or "empty")
    return identifier, {identifier: name}
