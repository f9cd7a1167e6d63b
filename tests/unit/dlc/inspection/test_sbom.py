"""sbom and licences: the document is valid SPDX 2.3 as spdx-tools judges it, and says what is true."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlc.inspection.facts import Facts
from dlc.inspection.sbom import declared_licences, make_document
from harness.image_facts import LAUNCHER, specimen_facts

FACTS = specimen_facts("dlc/toy:1", LAUNCHER)
DOCUMENT = make_document(FACTS)


def complaints(facts: Facts, folder: Path) -> list[str]:
    """What spdx-tools has against the document of these facts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own dependencies
        from spdx_tools.spdx.parser.parse_anything import parse_file  # type: ignore[import-untyped]
        from spdx_tools.spdx.validation.document_validator import (  # type: ignore[import-untyped]
            validate_full_spdx_document,
        )

        path = folder / "image.spdx.json"
        path.write_text(json.dumps(make_document(facts)))
        return [message.validation_message for message in validate_full_spdx_document(parse_file(str(path)))]


def package(name: str) -> dict[str, Any]:
    [found] = [entry for entry in DOCUMENT["packages"] if entry["name"] == name]
    return dict(found)


def relations(kind: str) -> set[tuple[str, str]]:
    rows = [row for row in DOCUMENT["relationships"] if row["relationshipType"] == kind]
    return {(row["spdxElementId"], row["relatedSpdxElement"]) for row in rows}


def test_the_document_is_valid_by_spdx_tools(tmp_path: Path) -> None:
    assert complaints(FACTS, tmp_path) == []


def test_spdx_tools_would_complain_of_a_licence_that_does_not_exist(tmp_path: Path) -> None:
    wrong = replace(FACTS, labels={**FACTS.labels, "org.opencontainers.image.licenses": "No-Such-Licence"})
    assert complaints(wrong, tmp_path)


def test_every_package_is_in_it_with_version_and_package_url() -> None:
    deb = "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12&upstream=glibc%402.36-9"
    assert package("libc6")["externalRefs"][0]["referenceLocator"] == deb
    assert package("six")["externalRefs"][0]["referenceLocator"] == "pkg:pypi/six@1.17.0"
    assert package("six")["versionInfo"] == "1.17.0"


def test_the_launcher_is_in_it_with_its_files_licence_and_what_it_needs() -> None:
    own = package("dlc-launcher")
    assert own["packageVerificationCode"] == {"packageVerificationCodeValue": "c" * 40}
    assert own["licenseDeclared"] == "Apache-2.0"
    assert ("SPDXRef-dlc-dlc-launcher", "SPDXRef-debian-tini-amd64") in relations("DEPENDS_ON")


def test_references_of_the_licence_label_are_defined_in_the_document(tmp_path: Path) -> None:
    label = {"org.opencontainers.image.licenses": "Apache-2.0 AND LicenseRef-NVIDIA"}
    facts = replace(FACTS, labels={**FACTS.labels, **label})
    assert complaints(facts, tmp_path) == []
    assert "LicenseRef-NVIDIA" in [entry["licenseId"] for entry in make_document(facts)["hasExtractedLicensingInfos"]]


def test_hashes_are_the_image_digest_and_the_packages_verification_codes() -> None:
    assert package(FACTS.ref)["checksums"] == [{"algorithm": "SHA256", "checksumValue": "1" * 64}]
    assert package("libc6")["packageVerificationCode"] == {"packageVerificationCodeValue": "a" * 40}
    assert package("tini")["filesAnalyzed"] is False


def test_the_image_contains_all_and_packages_depend_on_what_is_installed() -> None:
    assert len(relations("CONTAINS")) == 4
    of_debian = {pair for pair in relations("DEPENDS_ON") if pair[0] != "SPDXRef-dlc-dlc-launcher"}
    assert of_debian == {("SPDXRef-debian-tini-amd64", "SPDXRef-debian-libc6-amd64")}
    assert relations("DESCRIBES") == {("SPDXRef-DOCUMENT", "SPDXRef-image")}


def test_a_licence_that_spdx_does_not_know_is_defined_in_the_document() -> None:
    assert package("libc6")["licenseDeclared"] == "LGPL-2.1-only AND LicenseRef-Unheard-of"
    assert [entry["licenseId"] for entry in DOCUMENT["hasExtractedLicensingInfos"]] == ["LicenseRef-Unheard-of"]


def test_equal_facts_give_an_equal_document() -> None:
    assert make_document(specimen_facts("dlc/toy:1", LAUNCHER)) == DOCUMENT


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        ([], "NOASSERTION"),
        (["Expat"], "MIT"),
        (["GPL-2+", "GPL-2+"], "GPL-2.0-or-later"),
        (["ISC License (ISCL)"], "ISC"),
        (["LGPL-3"], "LGPL-3.0-only"),
        (["GPL-2+ or Artistic"], "GPL-2.0-or-later OR Artistic-1.0-Perl"),
        (["MIT", "BSD-2-clause or GPL-2"], "MIT AND (BSD-2-Clause OR GPL-2.0-only)"),
        (["Apache-2.0 WITH LLVM-exception"], "Apache-2.0 WITH LLVM-exception"),
        (["(MIT OR Apache-2.0) AND BSD-3-Clause"], "(MIT OR Apache-2.0) AND BSD-3-Clause"),
        (["ISC and (odd)"], "ISC AND LicenseRef-odd"),
        (["Odd Licence (ODD)"], "LicenseRef-Odd-Licence-ODD"),
        (["Sleepycat, and Expat"], "Sleepycat AND MIT"),
        (["GPL with automake exception"], "LicenseRef-GPL-with-automake-exception"),
        (["AGPL-3.0-or-later", "EUPL-1.2", "PostgreSQL"], "AGPL-3.0-or-later AND EUPL-1.2 AND PostgreSQL"),
        (["GPL-2.0-or-later WITH Classpath-exception-2.0"], "GPL-2.0-or-later WITH Classpath-exception-2.0"),
        (["GPL-2+ with Classpath-exception-2.0"], "GPL-2.0-or-later WITH Classpath-exception-2.0"),
        (["GPL-2.0-or-later WITH nothing"], "LicenseRef-GPL-2.0-or-later-WITH-nothing"),
        (["LGPL-2.1+ or MPL-1.1"], "LGPL-2.1-or-later OR MPL-1.1"),
        (["GNU Affero General Public License v3 or later (AGPLv3+)"], "AGPL-3.0-or-later"),
        (["mit and/or (apache-2.0 or bsd-3-clause)"], "MIT OR (Apache-2.0 OR BSD-3-Clause)"),
        (["MPL-1.1+"], "LicenseRef-MPL-1.1-plus"),
        (["public-domain"], "LicenseRef-public-domain"),
    ],
)
def test_licence_names_become_expressions(names: list[str], expression: str) -> None:
    assert declared_licences(names)[0] == expression


@example(["()"])
@example(["( or a"])
@given(st.lists(st.text(max_size=30)))
def test_whatever_a_package_calls_its_licence_every_reference_is_defined(names: list[str]) -> None:
    expression, references = declared_licences(names)
    words = expression.replace("(", " ").replace(")", " ").split()
    assert {word for word in words if word.startswith("LicenseRef-")} <= set(references)


@pytest.mark.parametrize("name", ["GPL-2+ or", "or", "a or or b", "((", "-", "\u00e9"])
def test_odd_licence_names_are_valid_by_spdx_tools_too(name: str, tmp_path: Path) -> None:
    odd = replace(FACTS.packages[0], licences=(name,))
    assert complaints(replace(FACTS, packages=(odd,)), tmp_path) == []
