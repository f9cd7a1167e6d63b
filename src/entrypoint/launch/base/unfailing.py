"""A stderr that never fails: a log that cannot be written (a full disk, a reader that is gone) changes nothing else."""

from __future__ import annotations

import os


class Unfailing:
    """As much of a text stream as print() needs. Whole lines are written at once; what cannot be is lost."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""

    def write(self, text: str) -> int:
        """Keep the text until the end of its line."""
        self._text += text
        if self._text.endswith("\n"):
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Write what is kept."""
        data, self._text = self._text.encode("utf-8", "backslashreplace"), ""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            return
