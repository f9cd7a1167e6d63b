"""What `dlc test` found of each image, kept in the cache until a push signs it: by the digest of what was tested."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from dlc.core.atomic_files import replace_text, report_disk_errors
from dlc.core.labels import format_time
from dlc.proof.results import TestRecord, parse_time

FOLDER = "tests"


def write_record(cache: Path, record: TestRecord) -> None:
    """Keep a record in place of an earlier one of the same image. Raises as `report_disk_errors` does."""
    with report_disk_errors(cache):
        replace_text(_find_path(cache, record.image), json.dumps(asdict(record), indent=1) + "\n")


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
