"""Jobs that a place took: `dlc submit` notes them, `dlc ps`, `dlc logs` and `dlc stop` find them by their names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dlc.core.errors import DlcError
from dlc.job.job_spec import PLACES, JobSpec
from dlc.places.place import LOCAL, Place, load_place, read_place_options
from dlc.places.records import Record, find_record, write_record


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add --to and --with, for the verbs that look after jobs of a place."""
    parser.add_argument("--to", default="", metavar="PLACE", help=f"of this place: {', '.join(PLACES)}")
    parser.add_argument(
        "--with", action="append", default=[], dest="words", metavar="KEY=VALUE", help="an option of the place"
    )


def find_submitted(word: str, to: str, words: Sequence[str]) -> tuple[Place, str, Any]:
    """Return place, id there and options of a job that this machine submitted, or of any job of the place `to`.

    Without `to`, a job that no place is known to have taken is one of this machine. Raises UsageError for a place that
    does not exist.
    """
    if record := find_record(word, to):
        place = load_place(record.place)
        return place, record.id, place.OPTIONS.model_validate(record.options)
    place = load_place(to or LOCAL)
    return place, word, read_place_options(place, to or LOCAL, None, words)


def note_submitted(job: JobSpec, place: str, job_id: str, options: Any) -> None:
    """Keep the name of a job that a place took, and its id there; this machine knows its own jobs by their claims."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        write_record(Record(job.name, place, job_id, str(job.folder), options.model_dump(mode="json"), now))
    except (OSError, DlcError) as error:
        # The job runs already.
        print(f"dlc: warning: {job.name} has no name here, only {job_id} --to {place}: {error}", file=sys.stderr)
