"""What a scan and scan-exceptions.yml come to for other scanners: an OpenVEX 0.2.0 document about one image. Pure.

https://github.com/openvex/spec/blob/main/OPENVEX-SPEC.md
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote

import dlc
from dlc.buildspec.models import ScanException
from dlc.buildspec.variant import normal_name
from dlc.core.labels import format_time
from dlc.inspection.advisories import EXCEPTIONS, Finding, Verdict
from dlc.inspection.facts import Facts
from dlc.inspection.sbom import Json, make_package_url

CONTEXT = "https://openvex.dev/ns/v0.2.0"


def make_vex(facts: Facts, product: str, verdict: Verdict, moment: datetime) -> Json | None:
    """Return the document; None if the scan found nothing, because a document needs a statement.

    A finding that an exception lets pass does not affect the image, for the reason that the exception gives. One whose
    exception has expired does, and an open one is under investigation.
    """
    addresses = {normal_name(package.name): make_package_url(package, facts.os) for package in facts.packages}
    statements = [_state(finding, product, addresses) | {"status": "under_investigation"} for finding in verdict.open]
    for finding, exception in verdict.excepted:
        said = {"status": "not_affected", "impact_statement": exception.reason, "status_notes": _name_owner(exception)}
        statements.append(_state(finding, product, addresses) | said)
    for finding, exception in verdict.expired:
        todo = f"use {finding.fix or 'another package'}, or renew the exception in {EXCEPTIONS}"
        said = {"status": "affected", "action_statement": todo, "status_notes": _name_owner(exception)}
        statements.append(_state(finding, product, addresses) | said)
    if not statements:
        return None
    owners = sorted({exception.owner for _, exception in (*verdict.excepted, *verdict.expired)})
    digest = hashlib.sha256(json.dumps(statements, sort_keys=True).encode()).hexdigest()
    return {
        "@context": CONTEXT,
        "@id": f"urn:dlc:vex:{digest}",
        "author": ", ".join(owners) or "dlc scan",
        "timestamp": format_time(moment),
        "version": 1,
        "tooling": f"dlc {dlc.__version__}",
        "statements": statements,
    }


def make_image_url(ref: str, digest: str) -> str:
    """Return the package URL of an image: `pkg:oci/pytorch@sha256%3A...?repository_url=registry.example/pytorch`."""
    repository = ref.partition("@")[0]
    head, slash, last = repository.rpartition("/")
    name = last.partition(":")[0]
    address = quote(f"{head}{slash}{name}", safe="/:")
    return f"pkg:oci/{quote(name.lower())}@{quote(digest, safe='')}?repository_url={address}"


def _state(finding: Finding, product: str, addresses: Mapping[str, str]) -> Json:
    """Return the statement about a finding without its status."""
    name = normal_name(finding.package)
    address = addresses.get(name) or f"pkg:generic/{quote(name)}@{quote(finding.version)}"
    vulnerability: Json = {"name": finding.advisory}
    if finding.aliases:
        vulnerability["aliases"] = sorted(set(finding.aliases))
    return {
        "vulnerability": vulnerability,
        "products": [{"@id": product, "subcomponents": [{"@id": address}]}],
    }


def _name_owner(exception: ScanException) -> str:
    return f"{exception.owner}, until {exception.expires}"
