"""inspection.dumps: advisories from files that a hash names, in OSV's and the Debian tracker's own formats."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlc.core.errors import LockError, UsageError
from dlc.inspection import advisories
from dlc.inspection.advisories import Finding
from dlc.inspection.facts import Facts
from harness.image_facts import specimen_facts

FACTS = specimen_facts()  # six 1.17.0; libc6 2.36-9 of glibc


def advisory(**affected: object) -> dict[str, Any]:
    package = {"ecosystem": "PyPI", "name": "Six"}
    return {
        "id": "PYSEC-1", "aliases": ["CVE-1"], "modified": "2026-11-20T10:00:00Z",
        "affected": [{"package": package, **affected}],
    }  # fmt: skip


def spans(*events: tuple[str, str]) -> dict[str, object]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: version} for kind, version in events]}]}


def osv(folder: Path, *entries: object) -> Path:
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, entry in enumerate(entries):
            archive.writestr(f"{number}.json", json.dumps(entry))
    return path


def with_version(version: str) -> Facts:
    return replace(FACTS, packages=tuple(replace(package, version=version) for package in FACTS.of_kind("python")))


@pytest.mark.parametrize(
    ("affected", "version", "counts"),
    [
        (spans(("introduced", "0"), ("fixed", "1.18")), "1.17.0", True),
        (spans(("introduced", "0"), ("fixed", "1.17.0")), "1.17.0", False),
        (spans(("introduced", "1.18")), "1.17.0", False),
        (spans(("introduced", "0"), ("last_affected", "1.17.0")), "1.17.0", True),
        (spans(("introduced", "0"), ("last_affected", "1.16")), "1.17.0", False),
        (spans(("introduced", "0"), ("fixed", "1.2"), ("introduced", "1.10"), ("fixed", "2")), "1.9", False),
        (spans(("introduced", "0"), ("fixed", "1.2"), ("introduced", "1.10"), ("fixed", "2")), "1.17", True),
        ({"versions": ["1.17"]}, "1.17.0", True),
        ({"versions": ["1.17.0"]}, "1.17.0+cpu", True),
        ({"versions": ["1.16", "not a version"]}, "1.17.0", False),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, "1.17.0", False),
    ],
)
def test_a_version_counts_as_osv_evaluates_it(
    affected: dict[str, object], version: str, counts: bool, tmp_path: Path
) -> None:
    answer = advisories.search_osv_dump(with_version(version), osv(tmp_path, advisory(**affected)))
    assert [finding.advisory for finding in answer.findings] == (["PYSEC-1"] if counts else [])
    assert "2026-11-20" in answer.source


def test_withdrawn_advisories_and_those_of_others_do_not_count(tmp_path: Path) -> None:
    everything = spans(("introduced", "0"))
    withdrawn = {**advisory(**everything), "withdrawn": "2026-01-01T00:00:00Z"}
    other = advisory(**everything, package={"ecosystem": "npm", "name": "six"})
    assert advisories.search_osv_dump(FACTS, osv(tmp_path, withdrawn, other)).findings == ()


def test_the_dump_of_another_ecosystem_is_refused(tmp_path: Path) -> None:
    """OSV calls each of them all.zip. An advisory about a package of both is in both."""
    npm = {**advisory(package={"ecosystem": "npm", "name": "six"}), "id": "GHSA-1"}
    both = {**advisory(), "affected": [*npm["affected"], *advisory()["affected"]], "id": "GHSA-2"}
    with pytest.raises(LockError, match=r"expected OSV's all\.zip of PyPI, found: the dump of npm") as caught:
        advisories.search_osv_dump(FACTS, osv(tmp_path, npm, npm, both))
    assert "PyPI/all.zip" in caught.value.remedy
    with pytest.raises(LockError, match="found: no advisory"):
        advisories.search_osv_dump(FACTS, osv(tmp_path))
    assert advisories.search_osv_dump(FACTS, osv(tmp_path, both, advisory())).day == "2026-11-20"


def test_a_tracker_that_does_not_know_the_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "json"
    for content in ({}, {"glibc": {"CVE-1": {"releases": {"noble": {"status": "open"}}}}}):
        path.write_text(json.dumps(content))
        with pytest.raises(LockError, match="found: no advisory about bookworm"):
            advisories.search_tracker_dump(FACTS, path)


def test_a_dump_is_told_with_its_day_and_no_package_is_said_to_be_known(tmp_path: Path) -> None:
    answer = advisories.search_osv_dump(FACTS, osv(tmp_path, advisory()))
    assert answer.coverage == f"{answer.asked} packages compared with data of 2026-11-20"
    path = tmp_path / "json"
    path.write_text(json.dumps({"glibc": {"CVE-1": {"releases": {"bookworm": {"status": "open"}}}}}))
    given = {advisories.TRACKER: f"{path}#sha256={'0' * 64}"}
    for day, said in (("", "an unknown day"), ("&day=2026-11-19", "2026-11-19")):
        stated = advisories.read_stated_day(advisories.TRACKER, {advisories.TRACKER: given[advisories.TRACKER] + day})
        assert advisories.search_tracker_dump(FACTS, path, stated).coverage.endswith(f"with data of {said}")
    with pytest.raises(UsageError, match="expected &day=YYYY-MM-DD, found 2026-11-31"):
        advisories.read_stated_day(advisories.TRACKER, {advisories.TRACKER: f"x#sha256={'0' * 64}&day=2026-11-31"})


def test_the_tracker_counts_fixed_faults_that_the_image_still_has(tmp_path: Path) -> None:
    def of_bookworm(**state: str) -> dict[str, object]:
        return {"releases": {"bookworm": state, "sid": {"status": "resolved", "fixed_version": "99"}}}

    glibc = {
        "CVE-fixed-later": of_bookworm(status="resolved", fixed_version="2.36-9+deb12u1"),
        "CVE-fixed": of_bookworm(status="resolved", fixed_version="2.36-9"),
        "CVE-never": of_bookworm(status="resolved", fixed_version="0"),
        "CVE-open": of_bookworm(status="open"),
    }
    path = tmp_path / "json"
    path.write_text(json.dumps({"glibc": glibc, "unrelated": glibc}))
    assert advisories.search_tracker_dump(FACTS, path).findings == (
        Finding("glibc", "2.36-9", "CVE-fixed-later", (), "2.36-9+deb12u1"),
    )


def test_a_dump_is_taken_by_its_hash_alone(tmp_path: Path) -> None:
    dump = osv(tmp_path, advisory())
    right = hashlib.sha256(dump.read_bytes()).hexdigest()
    assert advisories.fetch_dump(advisories.OSV, {}, tmp_path, None) is None
    found = advisories.fetch_dump(advisories.OSV, {advisories.OSV: f"{dump}#sha256={right}"}, tmp_path / "cache", None)
    assert found
    assert found.read_bytes() == dump.read_bytes()
    with pytest.raises(LockError, match="expected sha256 0000"):
        advisories.fetch_dump(
            advisories.OSV, {advisories.OSV: f"{dump.as_uri()}#sha256={'0' * 64}"}, tmp_path / "cache", None
        )
    with pytest.raises(UsageError, match="DLC_OSV_DUMP: expected ADDRESS#sha256=HEX"):
        advisories.fetch_dump(advisories.OSV, {advisories.OSV: str(dump)}, tmp_path / "cache", None)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"glibc": 1}', b"no zip"])
def test_a_file_of_another_format_is_an_error_and_no_clean_image(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LockError, match=r"expected OSV's all\.zip"):
        advisories.search_osv_dump(FACTS, path)
    with pytest.raises(LockError, match="expected the tracker's JSON"):
        advisories.search_tracker_dump(FACTS, path)
