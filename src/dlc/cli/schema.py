"""`dlc schema`: updates the JSON Schemas, and the tables of settings and of a job's keys, from the models."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

HELP = "update the JSON Schemas, and the tables of settings and of a job's keys in docs"
EXAMPLE = "dlc schema"
JOB_SCHEMA, CLUSTERS = "docs/job.schema.json", "docs/clusters.md"
# What stands between the marks of the table of fields.
FIELDS = "fields of a job at each place"
PLACES_FOLDER = "docs/clusters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --check."""
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not up to date")


def run(args: argparse.Namespace) -> int:
    """Write and name every file that is not up to date; with --check, raise SpecError with their names instead."""
    from dlc.buildspec import schema_docs
    from dlc.core.checkout import find_root
    from dlc.core.errors import SpecError

    root = find_root()
    derived = {
        **schema_docs.make_schemas(),
        **make_job_texts({page: (root / page).read_text() for page in list_pages(root)}),
        schema_docs.DOCUMENT: schema_docs.update_document((root / schema_docs.DOCUMENT).read_text()),
    }
    stale = {path: text for path, text in derived.items() if not _is_current(root / path, text)}
    if args.check and stale:
        raise SpecError("\n".join(f"{path}: not what the models say" for path in stale), "dlc schema")
    for path, text in stale.items():
        (root / path).write_text(text)
        print(path)
    return 0


def list_pages(root: Path) -> list[str]:
    """Return the pages on clusters: that on all of them, and those of places that have one."""
    return [CLUSTERS, *sorted(path.relative_to(root).as_posix() for path in (root / PLACES_FOLDER).glob("*.md"))]


def make_job_texts(pages: Mapping[str, str]) -> dict[str, str]:
    """Return the schema of a job's file, and the pages on clusters with their tables updated."""
    from dlc.buildspec import schema_docs
    from dlc.job.job_file import make_schema
    from dlc.job.job_spec import PLACES, JobSpec
    from dlc.places.field_table import make_table
    from dlc.places.place import load_place

    models: dict[str, type[BaseModel]] = {"a job": JobSpec}
    models |= {place: load_place(place).OPTIONS for place in PLACES}
    texts = dict(pages)
    for name, model in models.items():
        texts = {page: schema_docs.update_keys(text, name, model) for page, text in texts.items()}
    table = make_table()
    texts = {page: schema_docs.update_between(text, FIELDS, table) for page, text in texts.items()}
    return {JOB_SCHEMA: schema_docs.format_schema(JOB_SCHEMA, make_schema()), **texts}


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
