"""What a consumer may be told, with its bounds."""

from __future__ import annotations

import numbers
from typing import NamedTuple

from dlc_runtime.dataservice.errors import SettingError
from dlc_runtime.dataservice.wire.frames import MOST_BATCH

ORDERS = ("deterministic", "first_come")
QUICK = 0.02  # seconds of batches, as they come, that are asked or held: while one side pauses the other one works on
MOST_QUICK = 64  # batches for each worker, and
MOST_QUICK_BYTES = 4 << 20  # their bytes
LONGEST = 1e9  # seconds: as good as float("inf"), which no lock can wait for
UNKNOWN_SIZE = 4 << 20  # bytes that a batch is taken to have before the first one came


class Settings(NamedTuple):
    """`prefetch`: batches asked or held at most, None: eight for each worker, more of small ones that come fast.

    All times in seconds.
    """

    order: str = "deterministic"
    prefetch: int | None = None
    prefetch_bytes: int = 256 << 20
    most_batch_bytes: int = MOST_BATCH
    elsewhere_after: float = 10.0  # an answer that takes longer is asked from another server too
    deadline: float = 600.0  # for one batch of the user's function
    patience: float = 300.0  # with no server at all

    @property
    def ordered(self) -> bool:
        return self.order == "deterministic"

    def window(self, workers: int, largest: int, each_second: float = 0.0) -> int:
        """How many batches may be asked or held: bounded in number and in bytes, at least two.

        `each_second`: how many come. With first_come what one rank has asked for is lost to a faster one.
        """
        workers, size = max(1, workers), max(1, largest or UNKNOWN_SIZE)
        quick = int(QUICK * each_second) if self.ordered else 0
        quick = min(quick, MOST_QUICK * workers, MOST_QUICK_BYTES * workers // size)
        wanted = self.prefetch or max(8 * workers, quick)
        return max(2, min(wanted, self.prefetch_bytes // size))

    def check(self) -> Settings:
        """Itself, with times that can be waited for. Raises SettingError."""
        if self.order not in ORDERS:
            raise SettingError(f"RemoteLoader: order: expected one of {ORDERS}, found {self.order!r}")
        for name in ("prefetch", "prefetch_bytes", "most_batch_bytes", "elsewhere_after", "deadline", "patience"):
            if name != "prefetch" or self.prefetch is not None:
                check_above_zero(name, getattr(self, name))
        forever = {name: min(getattr(self, name), LONGEST) for name in ("elsewhere_after", "deadline", "patience")}
        return self._replace(**forever)


def check_above_zero(name: str, value: object) -> None:
    """Raises SettingError."""
    if not isinstance(value, numbers.Real) or not float(value) > 0:
        raise SettingError(f"RemoteLoader: {name}: expected a number above 0, found {value!r}")
