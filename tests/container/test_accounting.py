"""What dlc says of each built image is true: its facts, sizes, bill of materials, and differences from itself."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from dlc.buildspec.variant import normal_name
from dlc.core import labels
from dlc.engine.images import find_images
from dlc.inspection import diff as image_diff
from dlc.inspection import facts, sbom, size
from dlc.inspection.archive import Archive, export_archive, export_measured
from dlc.inspection.sbom import declared_licences
from harness.container import Container
from harness.engine import connect
from harness.images import Image

pytestmark = pytest.mark.container

GNU = re.compile(r"\b(A|L)?GPL\b")
NVIDIA = "LicenseRef-NVIDIA-Proprietary"


@pytest.fixture(scope="module")
def captured(image: Image) -> facts.Facts:
    return facts.capture_facts(connect(), image.ref)


@pytest.fixture(scope="module")
def archive(image: Image) -> Archive:
    return export_archive(connect(), image.ref)


def test_python_packages_are_those_of_the_lock(image: Image, captured: facts.Facts) -> None:
    found = {normal_name(package.name): package.version for package in captured.of_kind("python")}
    assert found == image.python_packages


def test_debian_packages_are_those_that_dpkg_lists(captured: facts.Facts, container: Container) -> None:
    listed = container.ask("dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n").splitlines()
    assert sorted(f"{p.name} {p.version}" for p in captured.of_kind("debian")) == sorted(listed)


def test_every_package_with_files_has_bytes_and_a_verification_code(image: Image, captured: facts.Facts) -> None:
    assert all(bool(package.verification) == bool(package.files) for package in captured.packages)
    # cuDNN is larger than TensorFlow 2.6.
    own = (package for package in captured.packages if not package.name.startswith("nvidia-"))
    largest = max(own, key=lambda package: package.bytes)
    assert normal_name(largest.name) == normal_name(image.variant.framework_requirements[0])


@pytest.mark.integration  # the engine saves the whole image
def test_the_size_is_what_the_engine_says_and_within_the_budget(
    image: Image, captured: facts.Facts, archive: Archive
) -> None:
    report = size.make_report(captured, archive)
    assert report.bytes == find_images(connect(), [image.ref])[image.ref].size
    size.require_within(image.variant.settings.budget, report.bytes, image.ref, report.packages)


@pytest.mark.long  # it compresses each layer
@pytest.mark.integration
def test_what_a_pull_brings_is_within_the_budget(
    image: Image, captured: facts.Facts, record_property: Callable[[str, object], None]
) -> None:
    report = size.make_report(captured, *export_measured(connect(), image.ref))
    sizes = f"{report.bytes / 1e9:.2f} GB, {report.compressed / 1e9:.2f} GB compressed"
    record_property("image size", f"{image.ref} {sizes}")
    size.require_within(image.variant.settings.budget, report.bytes, image.ref, report.packages, report.compressed)


@pytest.mark.integration  # the engine saves the whole image
def test_less_than_a_hundredth_of_the_image_is_stored_and_never_seen(captured: facts.Facts, archive: Archive) -> None:
    report = size.make_report(captured, archive)
    assert report.hidden_bytes < report.bytes / 100, report.hidden[:5]


def test_the_bill_of_materials_is_valid_by_spdx_tools(captured: facts.Facts, tmp_path: Path) -> None:
    (tmp_path / "image.spdx.json").write_text(json.dumps(sbom.make_document(captured)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own dependencies
        from spdx_tools.spdx.parser.parse_anything import parse_file
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

        found = validate_full_spdx_document(parse_file(str(tmp_path / "image.spdx.json")))
    assert [message.validation_message for message in found] == []


@pytest.mark.integration  # the engine saves the whole image
def test_an_image_does_not_differ_from_itself(captured: facts.Facts, archive: Archive) -> None:
    found = image_diff.compare_images(captured, captured, archive, archive)
    assert (found.packages, found.files, found.environment, found.labels) == ((), (), (), ())


def test_the_label_names_gpl_where_packages_do_and_nvidia_where_its_packages_are(captured: facts.Facts) -> None:
    label = captured.labels[labels.LICENSES]
    assert any(GNU.search(declared_licences(package.licences)[0]) for package in captured.packages)
    assert GNU.search(label)
    has_nvidia = any(package.name.lower().startswith("nvidia-") for package in captured.of_kind("python"))
    assert (NVIDIA in label) == (has_nvidia or captured.labels[labels.DEVICE] != "cpu")
