"""What this machine knows of the jobs that it handed to a place, for dlc logs and dlc stop. May import core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from dlc.core.atomic_files import replace_text
from dlc.core.environment import cache_folder

# In the cache: a file for each job.
RECORDS = "submitted"


@dataclass(frozen=True)
class Record:
    """One job that a place has taken."""

    # The job's own name.
    name: str
    place: str
    # What the place calls the job.
    id: str
    # Where this machine keeps what belongs to the job; absolute.
    folder: str
    # The place's options, as its model has them.
    options: Mapping[str, Any]
    # ISO 8601.
    submitted: str
    # Somebody waited for its end here.
    has_ended: bool = False


def write_record(record: Record) -> None:
    """Write the record; one of an older job of the same name is replaced."""
    replace_text(cache_folder() / RECORDS / f"{record.name}.json", json.dumps(asdict(record), indent=2) + "\n")


def note_end(name: str) -> None:
    """Note that a job has ended."""
    if record := find_record(name):
        write_record(replace(record, has_ended=True))


def read_records() -> list[Record]:
    """Return all records, the newest last. What is no record is passed over."""
    found = []
    for path in (cache_folder() / RECORDS).glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            found.append(Record(**json.loads(path.read_text())))
    return sorted(found, key=lambda record: record.submitted)


def find_record(word: str, place: str = "") -> Record | None:
    """Return the job of that name, or the newest that a place calls so; with `place` only one of that place."""
    records = [record for record in read_records() if place in ("", record.place)]
    named = [record for record in records if record.name == word]
    return next(iter(named or reversed([record for record in records if record.id == word])), None)


def list_open_folders() -> set[str]:
    """Return the folders of jobs of which this machine does not know that they have ended: others write to them."""
    return {record.folder for record in read_records() if not record.has_ended}
