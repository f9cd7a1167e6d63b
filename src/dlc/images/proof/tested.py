"""What `dlc test` found of each image, kept in the cache until a push signs it: by the digest of what was tested."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from dlc.core.atomic_files import replace_text, report_disk_errors
from dlc.images.proof.results import TestRecord, format_time, parse_time

FOLDER = "tests"


def read_report(text: str, identifiers: Collection[str]) -> Mapping[str, tuple[list[str], list[str]]]:
    """Return the names of the tests that passed and of those that failed, by image, from pytest's JUnit XML. Pure.

    A test that was skipped is neither. Raises ValueError for other text.
    """
    found: dict[str, tuple[list[str], list[str]]] = {identifier: ([], []) for identifier in identifiers}
    try:
        # pytest, which dlc started, wrote it.
        root = ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(f"expected pytest's report as XML, found {error}") from None
    for case in root.iter("testcase"):
        name = case.get("name", "")
        about = [identifier for identifier in identifiers if identifier in name]
        if not about or case.find("skipped") is not None:
            continue
        # pytorch-2.9-...-py311 is a part of pytorch-2.9-...-py311-xla.
        passed, failed = found[max(about, key=len)]
        is_bad = case.find("failure") is not None or case.find("error") is not None
        (failed if is_bad else passed).append(f"{case.get('classname', '')}::{name}")
    return found


def write_record(cache: Path, record: TestRecord) -> None:
    """Keep a record in place of an earlier one of the same image. Raises as `report_disk_errors` does."""
    path = _find_path(cache, record.image)
    with report_disk_errors(cache):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(asdict(record), indent=1) + "\n")


def make_record(image: str, passed: Collection[str], failed: Collection[str], finished: datetime) -> TestRecord:
    """Return the record of one image's tests, in the order of their names."""
    return TestRecord(image, tuple(sorted(passed)), tuple(sorted(failed)), format_time(finished))


def read_record(cache: Path, image: str) -> TestRecord | None:
    """Return the record of an image; None if it was not tested here, or the file is no record."""
    try:
        content = json.loads(_find_path(cache, image).read_text())
        parse_time(content["finished"])
        found = TestRecord(image, tuple(content["passed"]), tuple(content["failed"]), content["finished"])
        return found if content["image"] == image else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _find_path(cache: Path, image: str) -> Path:
    return cache / FOLDER / f"{image.partition(':')[2]}.json"
