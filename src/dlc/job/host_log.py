"""The lines of a job's hosts, as every place prints them: each whole, with the name of its host."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TextIO

from dlc.core.text import link_paths, shows_colors


class HostLog:
    """Prints what hosts say to `out`, and what dlc says of them to `said`, which is stderr if none is named."""

    def __init__(self, hosts: int, out: TextIO, said: TextIO | None = None) -> None:
        self._named = hosts > 1
        self._out = out
        self._said = said
        self._lock = Lock()

    def taker(self, host: str) -> Callable[[str], None]:
        """Return what prints one host's lines. The launcher names host and rank itself if a host has several ranks."""
        own = f"[{host}:"
        prefix = f"[{host}] " if self._named else ""

        def take(line: str) -> None:
            with self._lock:
                self._out.write(f"{line}\n" if line.startswith(own) else f"{prefix}{line}\n")
                self._out.flush()

        return take

    def say(self, text: str) -> None:
        """Print a line of dlc's own. It waits for nobody who does not read the hosts' lines."""
        # The terminal may be closed: the job is stopped all the same.
        with suppress(OSError):
            said = self._said or sys.stderr
            shown = link_paths(text) if shows_colors(os.environ, is_terminal=said.isatty()) else text
            print(f"dlc: {shown}", file=said, flush=True)
