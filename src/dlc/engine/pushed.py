"""Images that a builder pushed and no engine here has: where they are, and how they come here by digest."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from dlc.core.atomic_files import replace_text, report_disk_errors
from dlc.core.environment import cache_folder
from dlc.core.errors import ImageError
from dlc.core.process import last_lines
from dlc.engine import images
from dlc.engine.docker_client import Engine

FOLDER = "pushed"
PULL_SECONDS = 3600.0


@dataclass(frozen=True)
class Record:
    """An image in a registry that stands for a reference of this host."""

    ref: str
    # With its registry and its digest, as `docker pull` takes it.
    name: str
    # Its content key.
    key: str


def write_record(record: Record) -> None:
    """Write down where an image is."""
    with report_disk_errors(cache_folder()):
        replace_text(_find_path(record.ref), json.dumps(asdict(record)))


def read_record(ref: str) -> Record | None:
    """Return where the image of a reference is; None if nobody wrote it down."""
    try:
        return Record(**json.loads(_find_path(ref).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def forget_records(refs: Iterable[str]) -> None:
    """Forget images whose references mean what an engine here has built."""
    for ref in refs:
        _find_path(ref).unlink(missing_ok=True)


def pull_pushed(engine: Engine, refs: Iterable[str]) -> None:
    """Pull the images among these that a builder pushed and the engine lacks, each by its digest.

    Raises ImageError for an image that cannot be pulled, or that is not what was pushed.
    """
    records = [record for ref in refs if (record := read_record(ref))]
    there = images.find_keys(engine, [record.ref for record in records])
    for record in (each for each in records if there.get(each.ref) != each.key):
        print(f"  {record.ref}: pulled as {record.name}", file=sys.stderr, flush=True)
        done = engine.docker("pull", "--quiet", record.name, check=False, timeout=PULL_SECONDS)
        if done.returncode:
            raise ImageError(
                f"{record.ref}: a builder pushed it, and it cannot be pulled: {last_lines(done.stderr, 1)}",
                f"docker pull {record.name} shows more; or build it again",
            )
        engine.docker("tag", record.name, record.ref)
        if images.find_keys(engine, [record.ref]).get(record.ref) != record.key:
            raise ImageError(f"{record.name}: expected the content key {record.key}, found another", "build it again")


def _find_path(ref: str) -> Path:
    return cache_folder() / FOLDER / f"{hashlib.sha256(ref.encode()).hexdigest()[:24]}.json"
