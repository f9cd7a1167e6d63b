"""Sends blobs to a repository, several at a time, while the next layer is compressed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dlc.images.push.registry.repository import Repository

AT_A_TIME = 4


class Uploads:
    """Uploads in threads; the first failure ends all. The threads are daemons: a hanging one delays no exit."""

    def __init__(self, repository: Repository, say: Callable[[str], None]) -> None:
        self.sent = 0  # bytes that the repository did not have
        self._repository = repository
        self._say = say
        self._waiting: queue.SimpleQueue[tuple[str, Path] | None] = queue.SimpleQueue()
        self._open = 0
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        for _ in range(AT_A_TIME):
            threading.Thread(target=self._work, daemon=True).start()

    def add(self, digest: str, path: Path) -> None:
        """Send a file if the repository lacks it. Raises the failure of an earlier upload."""
        with self._changed:
            self._raise()
            self._open += 1
        self._waiting.put((digest, path))

    def finish(self) -> None:
        """Wait until all are sent. Raises the first failure at once."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._open)
            self._raise()
        for _ in range(AT_A_TIME):
            self._waiting.put(None)  # each thread ends

    def _raise(self) -> None:
        if self._failure:
            raise self._failure

    def _work(self) -> None:
        while not self._failure and (item := self._waiting.get()):
            failure: BaseException | None = None
            size = 0
            try:
                size = self._send(*item)
            except BaseException as error:  # raised again where the push waits
                failure = error
            with self._changed:
                self.sent += size
                self._open -= 1
                self._failure = self._failure or failure
                self._changed.notify_all()

    def _send(self, digest: str, path: Path) -> int:
        """Bytes that went over the wire."""
        size = path.stat().st_size
        if self._repository.size(digest) == size:
            return 0
        if self._repository.mount(digest):
            self._say(f"taken from another repository of this registry  {size / 1e6:.1f} MB  {digest}")
            return 0
        start = time.monotonic()
        self._repository.upload(path, digest)
        self._say(f"{time.monotonic() - start:.1f} s  {size / 1e6:.1f} MB  {digest}")
        return size
