"""The hosts' output as one: whole lines, each with its host's name in front."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TextIO


class Log:
    """Prints what hosts say to `out`, and what dlc says of them to `said`, which is stderr where none is named."""

    def __init__(self, hosts: int, out: TextIO, said: TextIO | None = None) -> None:
        self._named = hosts > 1
        self._out = out
        self._said = said
        self._lock = Lock()

    def taker(self, host: str) -> Callable[[str], None]:
        """What prints one host's lines. The launcher names host and rank itself where a host has several ranks."""
        own = f"[{host}:"
        prefix = f"[{host}] " if self._named else ""

        def take(line: str) -> None:
            with self._lock:
                self._out.write(f"{line}\n" if line.startswith(own) else f"{prefix}{line}\n")
                self._out.flush()

        return take

    def say(self, text: str) -> None:
        """A line of dlc's own. It waits for nobody who does not read the hosts' lines."""
        with suppress(OSError):  # a closed terminal: the job is stopped all the same
            print(f"dlc: {text}", file=self._said or sys.stderr, flush=True)
