"""The software bill of materials of an image, an SPDX 2.3 document, made from its facts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dlc.buildspec.variant import normal_name
from dlc.core.labels import KEY, LICENSES, VERSION
from dlc.images.inspection.facts import Facts, Package
from dlc.images.inspection.licences import declared

DOCUMENT, IMAGE = "SPDXRef-DOCUMENT", "SPDXRef-image"
UNKNOWN = "NOASSERTION"
Json = dict[str, Any]


def document(facts: Facts) -> Json:
    """SPDX 2.3 as a value for JSON. Equal facts give an equal document: its time is the image's own.

    The image contains every package; packages depend on those of the same kind that are installed, the launcher on
    Debian's. A package's hash is SPDX's verification code over its files as they are in the image; the image's is its
    digest.
    """
    whole = facts.labels.get(LICENSES, UNKNOWN)
    references: dict[str, str] = {name: name for name in re.findall(r"LicenseRef-[A-Za-z0-9.-]+", whole)}
    packages = [_image(facts)]
    for package in facts.packages:
        expression, found = declared(package.licences)
        references |= found
        packages.append(_package(package, expression, facts.os))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": facts.ref,
        "documentNamespace": f"urn:dlc:sbom:{facts.digest.removeprefix('sha256:')}",
        "creationInfo": {"created": _seconds(facts.created), "creators": ["Tool: dlc"]},
        "packages": packages,
        "hasExtractedLicensingInfos": [_extracted(identifier, name) for identifier, name in sorted(references.items())],
        "relationships": _relationships(facts.packages),
    }


def as_json(facts: Facts) -> str:
    """The document as `dlc sbom` writes it and `dlc push` attaches it."""
    return json.dumps(document(facts), indent=1) + "\n"


def _image(facts: Facts) -> Json:
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


def _package(package: Package, expression: str, os: str) -> Json:
    value: Json = {
        "SPDXID": identifier(package),
        "name": package.name,
        "versionInfo": package.version,
        "supplier": f"Organization: {os.partition(' ')[0]}" if package.kind == "debian" else UNKNOWN,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": bool(package.verification),
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": expression,
        "copyrightText": UNKNOWN,
        "externalRefs": [_locator(package, os)],
    }
    if package.verification:
        value["packageVerificationCode"] = {"packageVerificationCodeValue": package.verification}
    if re.fullmatch(r"https?://[^\s]+", package.homepage):
        value["homepage"] = package.homepage
    if package.source:
        value["sourceInfo"] = f"built from the source package {package.source} {package.source_version}"
    return value


def _locator(package: Package, os: str) -> Json:
    """The package URL, which scanners use to find advisories: for Debian by the release and the source package."""
    name, version = package.name, quote(package.version)
    if package.kind == "debian":
        vendor = os.partition(" ")[0].lower()
        release = f"&distro={vendor}-{found[1]}" if (found := re.search(r" (\d+(?:\.\d+)?)", os)) else ""
        source = quote(f"{package.source}@{package.source_version}", safe="")
        url = f"pkg:deb/{vendor}/{quote(name)}@{version}?arch={package.architecture}{release}&upstream={source}"
    elif package.kind == "python":
        url = f"pkg:pypi/{normal_name(name)}@{version}"
    else:
        url = f"pkg:generic/{name}@{version}"
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}


def _extracted(reference: str, name: str) -> Json:
    text = f"Named {name!r} by packages of this image; the text is in their copyright file or metadata."
    return {"licenseId": reference, "name": name, "extractedText": text}


def _relationships(packages: tuple[Package, ...]) -> list[Json]:
    """The document describes the image, which contains the packages, of which some depend on others."""
    known = _providers(packages)
    found = [_relationship(DOCUMENT, "DESCRIBES", IMAGE)]
    found += [_relationship(IMAGE, "CONTAINS", identifier(package)) for package in packages]
    for package in packages:
        kind = "debian" if package.kind == "dlc" else package.kind
        wanted = {known.get((kind, normal_name(name))) for name in package.requires} - {None}
        own = identifier(package)
        found += [_relationship(own, "DEPENDS_ON", other) for other in sorted(map(str, wanted)) if other != own]
    return found


def _providers(packages: tuple[Package, ...]) -> Mapping[tuple[str, str], str]:
    """Identifier by kind and name; a package of that name goes before one that only provides it."""
    provided = {(p.kind, normal_name(name)): identifier(p) for p in packages for name in p.provides}
    return provided | {(p.kind, normal_name(p.name)): identifier(p) for p in packages}


def _relationship(one: str, kind: str, other: str) -> Json:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def identifier(package: Package) -> str:
    """`SPDXRef-debian-libstdc-2b-2b-6`: letters, digits, dots and dashes; other characters as their hex code."""
    words = f"{package.kind}-{package.name}" + (f"-{package.architecture}" if package.architecture else "")
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda match: f"-{ord(match[0]):02x}-", words)


def _seconds(created: str) -> str:
    """A time without the fraction that engines write and SPDX does not allow."""
    return re.sub(r"\.\d+", "", created)
