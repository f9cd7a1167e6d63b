"""The log files of builds and pushes, in the cache folder."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from dlc.core.atomic_files import writing


def new_log(cache: Path, kind: str) -> Path:
    """An empty log file in the cache under a name that no other run has. Raises as `drafts.writing` does."""
    folder = cache / "logs"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(os.getpid()):
            path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{number}-{kind}.log"
            with suppress(FileExistsError):  # a process in another container may have our pid
                path.touch(exist_ok=False)
                return path
    raise AssertionError  # the numbers do not end


@contextmanager
def open_log(log: Path) -> Iterator[TextIO]:
    """The log, open to append; each line is written at once. Raises as `drafts.writing` does."""
    with writing(log.parent):
        log.parent.mkdir(parents=True, exist_ok=True)
        handle = log.open("a", buffering=1, errors="replace")
    try:
        yield handle
    finally:
        with writing(log.parent):
            handle.close()
