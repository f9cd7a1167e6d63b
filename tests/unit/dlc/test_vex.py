"""vex: exceptions become statements of OpenVEX, as its specification asks for each status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dlc.buildspec.models import ScanException
from dlc.images.inspection.advisories import Finding, Verdict
from dlc.images.inspection.vex import make_image_url, make_vex
from harness.image_facts import specimen_facts

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


def test_the_document_has_what_the_specification_requires_and_no_other_field() -> None:
    """https://github.com/openvex/spec/blob/main/OPENVEX-SPEC.md: its schema refuses further fields."""
    required = {"@context", "@id", "author", "timestamp", "version", "statements"}
    assert required <= set(DOCUMENT) <= {*required, "tooling"}
    fields = {"vulnerability", "products", "status", "impact_statement", "action_statement", "status_notes"}
    assert all(set(row) <= fields for row in DOCUMENT["statements"])
    assert DOCUMENT["author"] == "ada, bob"
    assert DOCUMENT["timestamp"] == "2026-11-28T12:00:00Z"


def test_no_finding_is_no_document() -> None:
    assert make_vex(FACTS, PRODUCT, Verdict((), (), (), (SOON,)), MOMENT) is None


def test_the_image_is_named_by_its_digest_and_its_repository() -> None:
    assert f"pkg:oci/toy@sha256%3A{'5' * 64}?repository_url=registry.example:5000/team/toy" == PRODUCT
    assert make_image_url("dlc/toy:1.17", DIGEST).endswith("?repository_url=dlc/toy")
