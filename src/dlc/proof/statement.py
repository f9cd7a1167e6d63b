"""in-toto statements: what is said, by which type of predicate, about which image. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TYPE = "https://in-toto.io/Statement/v1"
# cosign still writes the second.
TYPES = (TYPE, "https://in-toto.io/Statement/v0.1")
# Types of predicates. The first says no more than that the image is signed.
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
BILL = "https://spdx.dev/Document"
SCAN = "https://in-toto.io/attestation/vulns/v0.2"
TESTS = "https://in-toto.io/attestation/test-result/v0.1"
VEX = "https://openvex.dev/ns/v0.2.0"
# What messages and policies call them.
NAMES = {SIGNATURE: "signature", PROVENANCE: "provenance", BILL: "bill", SCAN: "scan", TESTS: "tests", VEX: "vex"}

Predicate = Mapping[str, Any]


@dataclass(frozen=True)
class Statement:
    """One statement. `digests`: of the images that it is about, as `sha256:...`."""

    kind: str
    digests: tuple[str, ...]
    predicate: Predicate


def make_statement(name: str, digest: str, kind: str, predicate: Predicate) -> bytes:
    """Return the statement about one image as JSON: equal words are equal bytes."""
    algorithm, _, value = digest.partition(":")
    content = {
        "_type": TYPE,
        "subject": [{"name": name, "digest": {algorithm: value}}],
        "predicateType": kind,
        "predicate": predicate,
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def parse_statement(payload: bytes) -> Statement:
    """Parse a statement. Raises ValueError for what is none."""
    try:
        content = json.loads(payload)
        if content["_type"] not in TYPES:
            raise ValueError(f"a statement of type {content['_type']}")
        subjects = content["subject"]
        digests = tuple(f"{name}:{value}" for subject in subjects for name, value in subject["digest"].items())
        predicate = content.get("predicate") or {}
        if not isinstance(predicate, dict):
            raise ValueError("a predicate that is no object")
        return Statement(str(content["predicateType"]), digests, predicate)
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("JSON that is no statement") from None
