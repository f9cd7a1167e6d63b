"""inspection.diff: what came, went and changed between two images, and what is no difference."""

from __future__ import annotations

from dataclasses import replace

from dlc.cli.diff import as_text
from dlc.inspection.archive import Archive, Entry, Layer
from dlc.inspection.diff import Change, compare_images
from harness.image_facts import specimen_facts

FACTS = specimen_facts()
FILE = Entry("file", 3, 0o644, "0:0", 7, "", "a" * 64)


def archive(**files: Entry) -> Archive:
    return Archive("", {}, (Layer("", "", files),))


def test_an_image_does_not_differ_from_itself() -> None:
    found = compare_images(FACTS, FACTS, archive(a=FILE), archive(a=FILE))
    assert (found.bytes, found.packages, found.environment, found.labels, found.files) == (0, (), (), (), ())


def test_packages_that_came_went_and_changed_are_told_with_versions() -> None:
    libc, tini, six = FACTS.packages
    after = replace(FACTS, packages=(replace(libc, version="2.40"), replace(six, name="seven")))
    found = compare_images(FACTS, after, archive(), archive())
    assert found.packages == (
        Change("debian libc6", "2.36-9", "2.40"),
        Change("debian tini", tini.version, ""),
        Change("python seven", "", six.version),
        Change("python six", six.version, ""),
    )


def test_environment_and_labels_are_compared_by_name() -> None:
    after = replace(FACTS, environment={"PATH": "/bin"}, labels={**FACTS.labels, "new": "1"})
    found = compare_images(FACTS, after, archive(), archive())
    assert found.environment == (Change("OPTIONS", "a=b", ""), Change("PATH", "/opt/venv/bin", "/bin"))
    assert found.labels == (Change("new", "", "1"),)


def test_a_file_differs_by_content_mode_and_owner_and_not_by_time() -> None:
    old = archive(content=FILE, mode=FILE, owner=FILE, time=FILE)
    new = archive(
        content=replace(FILE, sha256="b" * 64), mode=replace(FILE, mode=0o755), owner=replace(FILE, owner="1:1"),
        time=replace(FILE, modified=99),
    )  # fmt: skip
    assert [change.name for change in compare_images(FACTS, FACTS, old, new).files] == ["/content", "/mode", "/owner"]


def test_the_text_cuts_files_alone_and_says_how_many_more_there_are() -> None:
    found = compare_images(FACTS, replace(FACTS, ref="new", packages=()), archive(a=FILE, b=FILE), archive(c=FILE))
    text = as_text(found, 2)
    assert text.startswith(f"{FACTS.ref} -> new: +0.0 MB")
    assert "  - debian libc6  2.36-9" in text
    assert "  and 1 more" in text
