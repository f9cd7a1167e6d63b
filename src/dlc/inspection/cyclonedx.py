"""The bill of materials of an image as CycloneDX 1.6, from the same facts and with the same licences as the SPDX one.

https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import json
import re
import uuid

from dlc.core.labels import KEY, LICENSES, VERSION
from dlc.inspection.facts import Facts, Package
from dlc.inspection.sbom import (
    IMAGE,
    UNKNOWN,
    Json,
    cut_to_seconds,
    declared_licences,
    make_identifier,
    make_package_url,
    map_dependencies,
)

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
# What CycloneDX calls a kind of package.
TYPES = {"debian": "library", "python": "library", "dlc": "application"}


def make_document(facts: Facts) -> Json:
    """Return CycloneDX 1.6 as a value for JSON. Equal facts give an equal document, its serial number too."""
    known = map_dependencies(facts.packages)
    whole: Json = {"ref": IMAGE, "dependsOn": sorted(known)}
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, facts.digest)}",
        "version": 1,
        "metadata": {
            "timestamp": cut_to_seconds(facts.created),
            "tools": {"components": [{"type": "application", "name": "dlc"}]},
            "component": _describe_image(facts),
        },
        "components": [_describe_package(package, facts.os) for package in facts.packages],
        "dependencies": [whole, *({"ref": own, "dependsOn": list(others)} for own, others in known.items())],
    }


def render_json(facts: Facts) -> str:
    """Return the document as `dlc sbom --format cyclonedx` writes it."""
    return json.dumps(make_document(facts), indent=1) + "\n"


def _describe_image(facts: Facts) -> Json:
    return {
        "type": "container",
        "bom-ref": IMAGE,
        "name": facts.ref,
        "version": facts.labels.get(VERSION, ""),
        "hashes": [{"alg": "SHA-256", "content": facts.digest.partition(":")[2]}],
        **_state_licences(facts.labels.get(LICENSES, UNKNOWN)),
        "properties": [
            {"name": "dlc:system", "value": facts.os},
            {"name": "dlc:python", "value": facts.python},
            {"name": "dlc:content-key", "value": facts.labels.get(KEY, "none")},
        ],
    }


def _describe_package(package: Package, os: str) -> Json:
    value: Json = {
        "type": TYPES[package.kind],
        "bom-ref": make_identifier(package),
        "name": package.name,
        "version": package.version,
        "purl": make_package_url(package, os),
        **_state_licences(declared_licences(package.licences)[0]),
    }
    if package.kind == "debian":
        value["supplier"] = {"name": os.partition(" ")[0]}
    if re.fullmatch(r"https?://[^\s]+", package.homepage):
        value["externalReferences"] = [{"type": "website", "url": package.homepage}]
    if package.verification:
        # The code of SPDX, SHA-1 over the SHA-1s of its files: no file has this hash, so it is no hash of CycloneDX.
        value["properties"] = [{"name": "dlc:verification-code", "value": package.verification}]
    return value


def _state_licences(expression: str) -> Json:
    return {} if expression == UNKNOWN else {"licenses": [{"expression": expression}]}
