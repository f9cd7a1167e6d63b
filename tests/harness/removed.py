"""What a test sets up for a `with` block and removes after it, also where only a part of it could be set up."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Removed:
    """Base of what has `_set_up` and `_remove`."""

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _set_up(self) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError
