"""Times in which a whole host stood still, as a paused container does: no user's function worked then."""

from __future__ import annotations

import threading
import time
from collections import deque

EVERY = 0.25  # seconds between two looks at the clock
HALT = 1.0  # seconds between two looks from which on the host stood still
MOST = 64  # halts that are remembered


class Halts:
    """Two threads call it: the one that looks, and those that answer calls."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._found: deque[tuple[float, float]] = deque(maxlen=MOST)
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Look for ever."""
        while True:
            time.sleep(EVERY)
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Nothing of this process ran since the last look if that was long ago. `now`: of the monotonic clock."""
        with self._lock:
            if now - self._looked >= HALT:
                self._found.append((self._looked, now))
            self._looked = now

    def ran(self, begin: float, now: float) -> float:
        """Seconds of the time from `begin` to `now` in which the host ran."""
        self.look(now)  # a call may be answered before the watching thread wakes
        with self._lock:
            still = sum(max(0.0, min(end, now) - max(start, begin)) for start, end in self._found)
        return now - begin - still
