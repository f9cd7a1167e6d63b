"""junit, tested: pytest's report becomes a record for each image, which is found by the image's digest alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dlc.inspection.junit import ImageTests, read_report
from dlc.proof.tested import make_record, read_record, write_record

PLAIN, XLA = "pytorch-2.9-training-cu128-py311", "pytorch-2.9-training-cu128-py311-xla"
REPORT = f"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.container.test_a" name="test_starts[{PLAIN}]"/>
<testcase classname="tests.container.test_a" name="test_starts[{XLA}]"><failure message="no">x</failure></testcase>
<testcase classname="tests.container.test_a" name="test_ends[one-{XLA}]"><error message="no">x</error></testcase>
<testcase classname="tests.container.test_a" name="test_waits[{XLA}-two]"/>
<testcase classname="tests.container.test_a" name="test_gpu[{PLAIN}]"><skipped message="no GPU"/></testcase>
<testcase classname="tests.container.test_a" name="test_of_no_image"/>
</testsuite></testsuites>"""
DIGEST = f"sha256:{'1' * 64}"
FINISHED = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def test_each_image_has_its_own_tests_and_what_was_skipped_has_not_passed() -> None:
    found = read_report(REPORT, [PLAIN, XLA])
    name = "tests.container.test_a::test_"
    assert found[PLAIN] == ImageTests("", (f"{name}starts[{PLAIN}]",), (), 1)
    failed = (f"{name}starts[{XLA}]", f"{name}ends[one-{XLA}]")
    assert found[XLA] == ImageTests("", (f"{name}waits[{XLA}-two]",), failed, 0)


def test_text_that_is_no_report_is_refused() -> None:
    with pytest.raises(ValueError, match="expected pytest's report"):
        read_report("no xml", [PLAIN])


def test_a_record_is_found_by_the_digest_of_its_image_only(tmp_path: Path) -> None:
    record = make_record(DIGEST, ["b", "a"], [], FINISHED)
    write_record(tmp_path, record)
    assert read_record(tmp_path, DIGEST) == record
    assert record.passed == ("a", "b")
    assert read_record(tmp_path, f"sha256:{'2' * 64}") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"image": "sha256:1", "passed": 1}', "\x00"])
def test_a_file_that_is_no_record_is_none(tmp_path: Path, text: str) -> None:
    write_record(tmp_path, make_record(DIGEST, [], [], FINISHED))
    [path] = (tmp_path / "tests").glob("*.json")
    path.write_text(text)
    assert read_record(tmp_path, DIGEST) is None


def test_a_record_of_another_image_under_this_name_is_none(tmp_path: Path) -> None:
    write_record(tmp_path, make_record(DIGEST, [], [], FINISHED))
    [path] = (tmp_path / "tests").glob("*.json")
    path.rename(path.with_name(f"{'2' * 64}.json"))
    assert read_record(tmp_path, f"sha256:{'2' * 64}") is None
