"""`dlc schema`: updates the JSON Schemas, and the tables of settings and of a job's keys, from the models."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "update the JSON Schemas, and the tables of settings and of a job's keys in docs"
EXAMPLE = "dlc schema"
JOB_SCHEMA, CLUSTERS = "docs/job.schema.json", "docs/clusters.md"


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
        **make_job_texts((root / CLUSTERS).read_text()),
        schema_docs.DOCUMENT: schema_docs.update_document((root / schema_docs.DOCUMENT).read_text()),
    }
    stale = {path: text for path, text in derived.items() if not _is_current(root / path, text)}
    if args.check and stale:
        raise SpecError("\n".join(f"{path}: not what the models say" for path in stale), "dlc schema")
    for path, text in stale.items():
        (root / path).write_text(text)
        print(path)
    return 0


def make_job_texts(document: str) -> dict[str, str]:
    """Return the schema of a job's file, and the page on clusters with its tables updated."""
    from dlc.buildspec import schema_docs
    from dlc.jobs.job_file import JobSpec, make_schema
    from dlc.submit.places import PLACES, has_place, load_place

    text = schema_docs.update_keys(document, "a job", JobSpec)
    for place in filter(has_place, PLACES):
        text = schema_docs.update_keys(text, place, load_place(place).OPTIONS)
    return {JOB_SCHEMA: schema_docs.format_schema(make_schema()), CLUSTERS: text}


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
