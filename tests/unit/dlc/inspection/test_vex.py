"""vex: exceptions become statements of OpenVEX, as its specification asks for each status."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from dlc.buildspec.models import ScanException
from dlc.inspection.advisories import Finding, Verdict
from dlc.inspection.vex import make_image_url, make_vex
from harness.image_facts import specimen_facts
from harness.oci_forms import find_faults

MOMENT = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
FACTS = specimen_facts()
DIGEST = f"sha256:{'5' * 64}"
PRODUCT = make_image_url("registry.example:5000/team/toy", DIGEST)
SIX = Finding("six", "1.17.0", "PYSEC-2026-1", ("CVE-2026-1",), "1.18.0")
LIBC = Finding("libc6", "2.36-9", "libc6-update", (), "2.36-10")
UNKNOWN = Finding("not-there", "1", "CVE-2026-3", (), "")
SOON = ScanException(advisory="CVE-2026-1", reason="nobody calls it", owner="ada", expires="2026-12-31")
LATE = ScanException(advisory="libc6-update", reason="no network", owner="bob", expires="2026-11-01")
DOCUMENT: dict[str, Any] = make_vex(
    FACTS, PRODUCT, Verdict((UNKNOWN,), ((SIX, SOON),), ((LIBC, LATE),), ()), MOMENT
) or {}  # fmt: skip


COMPONENT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["@id"],
    "properties": {
        "@id": {"type": "string", "pattern": "^pkg:"},
        "identifiers": {"type": "object"},
        "hashes": {"type": "object"},
    },
}
# What OpenVEX 0.2.0 asks for, from its text: https://github.com/openvex/spec/blob/main/OPENVEX-SPEC.md
FORM: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["@context", "@id", "author", "timestamp", "version", "statements"],
    "properties": {
        "@context": {"const": "https://openvex.dev/ns/v0.2.0"},
        "@id": {"type": "string", "minLength": 1},
        "author": {"type": "string", "minLength": 1},
        "role": {"type": "string"},
        "timestamp": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$"},
        "version": {"type": "integer", "minimum": 1},
        "tooling": {"type": "string"},
        "statements": {"type": "array", "minItems": 1, "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["vulnerability", "products", "status"],
            "properties": {
                "vulnerability": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "minLength": 1},
                        "description": {"type": "string"},
                        "aliases": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                    },
                },
                "products": {"type": "array", "minItems": 1, "items": {
                    **COMPONENT,
                    "properties": {
                        **COMPONENT["properties"], "subcomponents": {"type": "array", "items": COMPONENT},
                    },
                }},
                "status": {"enum": ["not_affected", "affected", "fixed", "under_investigation"]},
                "status_notes": {"type": "string"},
                "justification": {"enum": [
                    "component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
                    "vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist",
                ]},
                "impact_statement": {"type": "string"},
                "action_statement": {"type": "string"},
            },
            "allOf": [
                {
                    "if": {"properties": {"status": {"const": "not_affected"}}},
                    "then": {"anyOf": [{"required": ["justification"]}, {"required": ["impact_statement"]}]},
                },
                {
                    "if": {"properties": {"status": {"const": "affected"}}},
                    "then": {"required": ["action_statement"]},
                },
            ],
        }},
    },
}  # fmt: skip


def statement(name: str) -> dict[str, Any]:
    [found] = [row for row in DOCUMENT["statements"] if row["vulnerability"]["name"] == name]
    return dict(found)


def test_an_excepted_finding_does_not_affect_the_image_for_the_reason_of_the_exception() -> None:
    found = statement("PYSEC-2026-1")
    assert (found["status"], found["impact_statement"]) == ("not_affected", "nobody calls it")
    assert found["status_notes"] == "ada, until 2026-12-31"
    assert found["vulnerability"]["aliases"] == ["CVE-2026-1"]
    [product] = found["products"]
    assert product == {"@id": PRODUCT, "subcomponents": [{"@id": "pkg:pypi/six@1.17.0"}]}


def test_an_expired_exception_leaves_the_image_affected_with_what_to_do() -> None:
    found = statement("libc6-update")
    assert found["status"] == "affected"
    assert "2.36-10" in found["action_statement"]
    assert found["products"][0]["subcomponents"][0]["@id"].startswith("pkg:deb/debian/libc6@2.36-9")


def test_an_open_finding_is_under_investigation() -> None:
    assert statement("CVE-2026-3")["status"] == "under_investigation"


def test_the_document_has_the_form_of_the_specification() -> None:
    assert find_faults(DOCUMENT, FORM) == []
    assert DOCUMENT["author"] == "ada, bob"
    assert DOCUMENT["timestamp"] == "2026-11-28T12:00:00Z"


@pytest.mark.parametrize("name", ["PYSEC-2026-1", "libc6-update", "CVE-2026-3"])
@pytest.mark.parametrize("part", ["impact_statement", "action_statement", "vulnerability", "products", "status"])
def test_a_statement_without_what_its_status_needs_is_seen(name: str, part: str) -> None:
    changed = copy.deepcopy(DOCUMENT)
    [found] = [row for row in changed["statements"] if row["vulnerability"]["name"] == name]
    if part in found:
        del found[part]
        assert find_faults(changed, FORM) != []
    else:
        assert part.endswith("_statement")


def test_no_finding_is_no_document() -> None:
    assert make_vex(FACTS, PRODUCT, Verdict((), (), (), (SOON,)), MOMENT) is None


def test_the_image_is_named_by_its_digest_and_its_repository() -> None:
    assert f"pkg:oci/toy@sha256%3A{'5' * 64}?repository_url=registry.example:5000/team/toy" == PRODUCT
    assert make_image_url("dlc/toy:1.17", DIGEST).endswith("?repository_url=dlc/toy")
