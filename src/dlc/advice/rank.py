"""What was measured of one process of a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Frameworks whose batches are prepared by workers, or by the training thread.
OWN_WORKERS = ("torch", "python")


@dataclass(frozen=True)
class Rank:
    """One process's report."""

    number: int
    host: str
    framework: str
    steps: int
    # Seconds with the data ready: the median.
    step: float
    # Seconds in all.
    waiting: float
    computing: float
    # Seconds until the first batch of each iteration, while workers are started.
    starting: float
    batch_bytes: float
    # Processors of the host that this job may use.
    usable: float
    # Share of them that worked.
    busy: float
    batches: int
    # CPU seconds for all batches.
    cpu: float
    # Seconds of workers, for all batches.
    fetching: float
    # 0: the training process itself.
    workers: int
    gpu_use: float | None
    # Seconds of workers in a line for a processor, for all batches; None: the kernel does not say.
    queued: float | None = None
    # Seconds of the waiting in which the training thread itself stood in such a line.
    waiting_queued: float = 0.0
    # Processors of the host; 0: unknown.
    host_cpus: float = 0.0
    # How many of them other programs took.
    others: float | None = None
    # How many of them the host below a virtual host took.
    stolen: float = 0.0
    # Share of the time that something stood in a line for a processor.
    pressure: float | None = None
    # Whether the pipeline prepares several batches at a time.
    parallel: bool = False
    # Steps that are left out: in them something was compiled.
    compiled_steps: int = 0
    # Seconds of those steps.
    compiling: float = 0.0
    # Batches that took many times as long as most, of how many, and their share of the time of these.
    slow_batches: int = 0
    timed_batches: int = 0
    slow_share: float = 0.0

    # What workers wait in while they are asleep, and in how many looks; None: nobody looked.
    asleep_in: Mapping[str, int] | None = None

    @property
    def wait(self) -> float:
        """Return the share of the time that is spent waiting for data."""
        return self.waiting / (self.waiting + self.computing)

    @property
    def wait_queued(self) -> float:
        """Return the share of the time in which the training thread has no processor to take its batch."""
        return min(self.waiting_queued / (self.waiting + self.computing), self.wait)

    @property
    def interval(self) -> float:
        """Return the seconds of a step with its wait."""
        return (self.waiting + self.computing) / self.steps

    @property
    def seconds_of_batch(self) -> float:
        """Return the seconds that a worker needs for a batch if it never stands in a line."""
        seconds = max(self.fetching - min(self.queued or 0.0, self.fetching), self.cpu)
        return seconds / self.batches if self.batches else 0.0

    @property
    def shared_threads(self) -> bool:
        """Tell whether threads of the framework prepare batches, which have no number to give."""
        return self.framework not in OWN_WORKERS
