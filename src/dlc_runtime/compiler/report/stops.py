"""Tells whether this process was asked to stop: then its last words in the log are the script's, and nothing is added.

Python writes the number of each signal for which the script has a handler to a pipe of ours, and runs the handler as
ever. The script's handlers stay the script's: nothing stands around them.
"""

from __future__ import annotations

import contextlib
import os
import signal

STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
NONE = -1


class Stops:
    """The signals that this process has had since `listen`."""

    def __init__(self) -> None:
        self._read = self._write = NONE
        self._has_come = False

    def listen(self) -> None:
        """Listen, if nobody else does: asyncio has a pipe of its own."""
        try:
            held = signal.set_wakeup_fd(NONE)
        except ValueError:
            # Only the main thread may ask.
            return
        if held != NONE:
            signal.set_wakeup_fd(held)
            return
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # A child's signals are none of ours.
        os.register_at_fork(after_in_child=self._leave)

    def has_come(self) -> bool:
        """Tell whether one of them asked to stop. Call it now and then, or the pipe is full."""
        while not self._has_come and self._read != NONE:
            try:
                found = os.read(self._read, 1 << 16)
            except OSError:
                break
            self._has_come = not STOPS.isdisjoint(found)
        return self._has_come

    def _leave(self) -> None:
        self._read = NONE
        with contextlib.suppress(ValueError):
            held = signal.set_wakeup_fd(NONE)
            if held not in (self._write, NONE):
                # By now the script's.
                signal.set_wakeup_fd(held)
