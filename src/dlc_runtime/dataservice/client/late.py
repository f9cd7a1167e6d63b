"""Watches for a batch that does not come: asks its server what it does, and names a user function that hangs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import HangingUserFunctionError

if TYPE_CHECKING:
    from typing import Any

    from dlc_runtime.dataservice.client.pump import Pump

LOOK = 5.0  # seconds an id may take before its server is asked about it, and between two such questions
MOST_STACK = 8000  # characters


class Watch:
    """A thread of its own: the calls may take seconds."""

    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        self._end = threading.Event()
        self.every = min(LOOK, pump.settings.deadline / 2)
        threading.Thread(target=self._run, name="dlc-data-watch", daemon=True).start()

    def close(self) -> None:
        self._end.set()

    def _run(self) -> None:
        while not self._end.wait(self.every):
            pump = self.pump
            with pump._lock:
                late = pump.asks.late(time.monotonic(), self.every)
                servers = {pump.homes[server] for server in late.servers if server in pump.homes} if late else set()
            for server in servers:
                self._look(server)

    def _look(self, server: str) -> None:
        """A worker may also hang with a batch of another rank: ours waits behind it."""
        status = self.pump.scout.status(server, stacks_after=self.pump.settings.deadline)
        for number, told in enumerate((status or {}).get("workers", ())):
            if (told.get("seconds") or 0.0) >= self.pump.settings.deadline:
                self.pump.fail(HangingUserFunctionError(self._words(server, number, told)))

    def _words(self, server: str, number: int, told: dict[str, Any]) -> str:
        found = self.pump.found.get(server)
        host = found.host if found is not None else server
        stack = str(told.get("stack") or "unknown")[-MOST_STACK:]
        batch = f"batch {told['id']} of epoch {told['epoch']} for {told['seconds']:.0f} s"
        return (
            f"the user's function on {host} has worked on {batch}, longer than the deadline of"
            f" {self.pump.settings.deadline:.0f} s (worker {number}, pid {told['pid']}); raise deadline= of"
            f" RemoteLoader if it is merely slow; where it is:\n{stack}"
        )
