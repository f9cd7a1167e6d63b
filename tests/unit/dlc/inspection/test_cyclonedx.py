"""cyclonedx: the document is valid CycloneDX 1.6 by its own schema, and says the same as the SPDX one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from dlc.inspection.cyclonedx import make_document, render_json
from dlc.inspection.facts import Facts
from dlc.inspection.sbom import make_document as make_spdx
from harness.image_facts import LAUNCHER, specimen_facts

FACTS = specimen_facts("dlc/toy:1", LAUNCHER)
DOCUMENT = make_document(FACTS)


def find_fault(text: str) -> str:
    """What the schema has against a document."""
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return "" if found is None else str(found)


def test_the_document_is_valid_by_its_schema() -> None:
    assert find_fault(render_json(FACTS)) == ""


def test_the_schema_would_complain_of_what_it_does_not_know() -> None:
    wrong = {**DOCUMENT, "components": [{**DOCUMENT["components"][0], "type": "package"}]}
    assert find_fault(json.dumps(wrong))


@pytest.mark.parametrize("name", ["", "GPL-2+ or", "((", "a or or b", "é"])
def test_odd_licence_names_and_homepages_are_valid_too(name: str) -> None:
    odd = replace(FACTS.packages[0], licences=(name,), homepage="not an address")
    assert find_fault(render_json(replace(FACTS, packages=(odd,)))) == ""


def test_it_says_what_the_spdx_document_says() -> None:
    spdx = make_spdx(FACTS)
    _, *packages = spdx["packages"]
    components = DOCUMENT["components"]
    assert [row["purl"] for row in components] == [row["externalRefs"][0]["referenceLocator"] for row in packages]
    assert [row["version"] for row in components] == [row["versionInfo"] for row in packages]
    expressions = [row["licenses"][0]["expression"] for row in components]
    assert expressions == [row["licenseDeclared"] for row in packages]
    image = DOCUMENT["metadata"]["component"]
    assert image["hashes"] == [{"alg": "SHA-256", "content": "1" * 64}]


def test_it_names_which_package_needs_which() -> None:
    needs = {row["ref"]: row["dependsOn"] for row in DOCUMENT["dependencies"]}
    assert needs["SPDXRef-debian-tini-amd64"] == ["SPDXRef-debian-libc6-amd64"]
    assert needs["SPDXRef-dlc-dlc-launcher"] == ["SPDXRef-debian-tini-amd64"]
    assert set(needs["SPDXRef-image"]) == {row["bom-ref"] for row in DOCUMENT["components"]}


def test_equal_facts_give_an_equal_document() -> None:
    other: Facts = replace(FACTS, digest=f"sha256:{'2' * 64}")
    assert render_json(specimen_facts("dlc/toy:1", LAUNCHER)) == render_json(FACTS)
    assert make_document(other)["serialNumber"] != DOCUMENT["serialNumber"]
