"""facts and probe: what is read of packages, licences and files, and what becomes of Docker's answers."""

from __future__ import annotations

import ast
import hashlib
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from dlc.inspection import probe as image_probe
from dlc.inspection.facts import PROBE, make_facts
from harness.image_facts import HISTORY, INSPECTED, PROBED

LIBC = {
    "Package": "libc6",
    "Version": "2.36-9",
    "Architecture": "amd64",
    "Source": "glibc (2.36)",
    "Maintainer": "GNU Libc Maintainers <glibc@example.invalid>",
    "Depends": "libgcc-s1 (>= 3), libcrypt1:any (>= 1:4) | libcrypt2",
    "Provides": "libc6-abi (= 2.36)",
    "Status": "install ok installed",
}


def test_control_paragraphs_keep_their_continuation_lines() -> None:
    text = "Package: a\nDescription: one\n two\n .\n\nPackage: b\n"
    assert list(image_probe.stanzas(text)) == [{"Package": "a", "Description": "one\ntwo\n."}, {"Package": "b"}]


def test_machine_readable_copyright_gives_the_names_in_its_licence_fields() -> None:
    text = "Format: https://example.invalid\n\nFiles: *\nLicense: GPL-2+\n text of it\n\nLicense: Expat\n text\n"
    assert image_probe.copyright_licences(text) == ["Expat", "GPL-2+"]


def test_free_copyright_gives_the_common_licences_that_it_refers_to() -> None:
    text = "See `/usr/share/common-licenses/LGPL-2.1'. Also /usr/share/common-licenses/GPL-2.\n"
    assert image_probe.copyright_licences(text) == ["GPL-2", "LGPL-2.1"]


def test_debian_package_has_its_source_relations_licences_and_measured_files(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg/info").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/info/libc6:amd64.list").write_text("/lib\n/lib/libc.so\n/lib/link\n/lib/gone\n")
    (tmp_path / "usr/share/doc/libc6").mkdir(parents=True)
    (tmp_path / "usr/share/doc/libc6/copyright").write_text("/usr/share/common-licenses/LGPL-2.1")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libc.so").write_bytes(b"12345")
    (tmp_path / "lib/link").symlink_to("libc.so")
    found = image_probe.debian_package(LIBC, str(tmp_path))
    assert (found["source"], found["source_version"]) == ("glibc", "2.36")
    assert found["requires"] == ["libcrypt1", "libcrypt2", "libgcc-s1"]
    assert found["provides"] == ["libc6-abi"]
    assert found["licences"] == ["LGPL-2.1"]
    assert (found["files"], found["bytes"]) == (1, 5)


def test_verification_code_is_sha1_over_the_sorted_sha1s_and_ignores_bytecode(tmp_path: Path) -> None:
    for name, content in {"b.py": b"b", "a.py": b"a", "a.pyc": b"c"}.items():
        (tmp_path / name).write_bytes(content)
    found = image_probe.measured(str(tmp_path / name) for name in ("b.py", "a.py", "a.pyc"))
    digests = sorted(hashlib.sha1(content).hexdigest() for content in (b"a", b"b"))
    assert found["verification"] == hashlib.sha1("".join(digests).encode()).hexdigest()
    assert (found["files"], found["bytes"]) == (3, 3)


def test_package_without_files_has_no_verification_code() -> None:
    assert image_probe.measured([])["verification"] == ""


def test_python_package_is_read_from_its_metadata_and_counts_its_bytecode(tmp_path: Path) -> None:
    info = tmp_path / "tool-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: Tool\nVersion: 1.0\nLicense-Expression: MIT AND PSF-2.0\n"
        "Requires-Dist: numpy>=2\nRequires-Dist: pytest; extra == 'test'\nProject-URL: Homepage, https://example.invalid\n"
    )
    (info / "RECORD").write_text("tool.py,,\ntool-1.0.dist-info/METADATA,,\n")
    (tmp_path / "tool.py").write_text("x = 1\n")
    cached = Path(image_probe.bytecode(str(tmp_path / "tool.py")))
    cached.parent.mkdir()
    cached.write_bytes(b"0" * 100)
    found = image_probe.python_package(PathDistribution(info))
    assert (found["name"], found["version"], found["licences"]) == ("Tool", "1.0", ["MIT AND PSF-2.0"])
    assert found["requires"] == ["numpy"]
    assert found["homepage"] == "https://example.invalid"
    assert found["files"] == 3
    assert found["bytes"] == 100 + 6 + (info / "METADATA").stat().st_size


@pytest.mark.parametrize(
    ("expressions", "texts", "classifiers", "expected"),
    [
        (["Apache-2.0 OR MIT"], ["MIT"], ["License :: OSI Approved :: MIT License"], ["Apache-2.0 OR MIT"]),
        ([], ["whole text\nof it"], ["License :: OSI Approved :: MIT License"], ["MIT License"]),
        ([], ["BSD-3-Clause"], ["License :: OSI Approved"], ["BSD-3-Clause"]),
        ([], ["whole text\nof it"], [], []),
        ([], [], [], []),
    ],
)
def test_licence_of_a_python_package_is_the_most_precise_statement(
    expressions: list[str], texts: list[str], classifiers: list[str], expected: list[str]
) -> None:
    assert image_probe.python_licences(expressions, texts, classifiers) == expected


def test_the_probe_needs_the_standard_library_alone() -> None:
    nodes = list(ast.walk(ast.parse(PROBE.read_text())))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    assert "json" in modules
    assert {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names


def test_facts_hold_steps_oldest_first_without_the_empty_ones() -> None:
    facts = make_facts("dlc/toy:1", INSPECTED, HISTORY, PROBED)
    assert [step.command for step in facts.steps] == ["ADD rootfs.tar /", "RUN install six"]
    assert facts.bytes == 1_100
    assert facts.environment == {"PATH": "/opt/venv/bin", "OPTIONS": "a=b"}
    assert facts.labels["org.dlc.id"] == "toy-1.17-training-cpu-py311"


def test_facts_tell_debian_from_python_packages() -> None:
    facts = make_facts("dlc/toy:1", INSPECTED, HISTORY, PROBED)
    assert [package.name for package in facts.of_kind("debian")] == ["libc6", "tini"]
    assert [(package.name, package.source) for package in facts.of_kind("python")] == [("six", "")]
