"""What a rank waits for, from its measured numbers alone. Pure.

A batch's time has three parts: its worker computes, stands in a line for a processor, or is asleep, for a file or the
network. The largest part tells what would help. What other programs did on the host never tells it alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from dlc.advice.rank import Rank

# Share of the time: less is noise.
WAITS = 0.05
# Share of the usable processors: more is full.
BUSY = 0.85
# Share of a batch's time in a line for a processor: more means that there were too few.
QUEUED = 0.25
# Share of the host's processors that other programs take: less is what any host does.
TAKEN = 0.2
# Share of the time that a worker fetches: a worker that fetches less has time left.
ENGAGED = 0.85
# The same of workers that rest so much that what they do is not what training waits for.
RESTING = 0.5
# Share of the time of all batches that few of them take: more is most of it.
SLOW_TIME = 0.5
# Part of a processor that each worker is counted for at least.
LEAST_USE = 0.25
# Measured steps; fewer tell nothing.
LEAST_STEPS = 5
# Batches that each worker prepares before training takes the first one.
AHEAD = 2
COMPUTING, PROCESSORS, WORKERS, INPUT, ELSEWHERE = "computing", "processors", "workers", "input", "elsewhere"
OTHERS, UNEVEN, UNKNOWN = "others", "uneven", "unknown"


@dataclass(frozen=True)
class Shares:
    """The parts of a batch's time; together 1."""

    computing: float
    queued: float
    asleep: float


def split_batch(rank: Rank) -> Shares | None:
    """Return the parts of a batch's time; None if no batch was seen.

    If the kernel does not say how long a worker stood in line, that time is in `asleep`.
    """
    if not rank.batches or not rank.fetching:
        return None
    queued = min((rank.queued or 0.0) / rank.fetching, 1.0)
    computing = min(rank.cpu / rank.fetching, 1.0 - queued)
    return Shares(computing, queued, max(1.0 - queued - computing, 0.0))


def find_kind(rank: Rank) -> str:
    """Return what a rank waits for, or UNKNOWN or ELSEWHERE if that cannot be told."""
    if rank.steps < max(LEAST_STEPS, AHEAD * rank.workers):
        return UNKNOWN
    if rank.wait < WAITS:
        return COMPUTING
    if rank.wait - rank.wait_queued < max(WAITS, rank.wait / 2):
        return _find_taker(rank)
    shares = split_batch(rank)
    if shares is None:
        return PROCESSORS if rank.busy >= BUSY else OTHERS if is_crowded(rank) else ELSEWHERE
    if is_uneven(rank):
        return UNEVEN
    if rank.workers and find_engagement(rank) < RESTING:
        return ELSEWHERE
    if rank.queued is None:
        return _guess_kind(rank, shares)
    if shares.asleep > max(shares.computing, shares.queued):
        return INPUT
    if shares.queued >= QUEUED:
        return _find_taker(rank)
    return _judge_computing(rank)


def _guess_kind(rank: Rank, shares: Shares) -> str:
    """Return the kind if the kernel does not say how long workers stood in line: the host has to tell it."""
    if rank.busy >= BUSY:
        return PROCESSORS
    if is_crowded(rank):
        return OTHERS
    return INPUT if shares.asleep > shares.computing else _judge_computing(rank)


def _find_taker(rank: Rank) -> str:
    return OTHERS if is_crowded(rank) else PROCESSORS


def _judge_computing(rank: Rank) -> str:
    """Return the kind of a job whose workers compute: more of them help, if there are processors for them."""
    if rank.busy >= BUSY:
        return PROCESSORS
    return WORKERS if rank.shared_threads or find_workers(rank) else ELSEWHERE


def is_crowded(rank: Rank) -> bool:
    """Tell whether the host's processors were full, and other programs had more of the job's than the job itself."""
    if rank.others is None or not rank.host_cpus:
        return False
    own = rank.busy * rank.usable
    full = rank.others + own >= BUSY * rank.host_cpus and rank.others >= TAKEN * rank.host_cpus
    return full and min(rank.others, rank.usable - own) >= own


def is_uneven(rank: Rank) -> bool:
    """Tell whether a few slow batches take most of the time of all."""
    return rank.slow_batches > 0 and rank.slow_share >= SLOW_TIME


def find_workers(rank: Rank) -> int | None:
    """Return the number of workers that prepares a batch in each step's time; None if more workers change nothing.

    There are processors for them: those that are free, and those that the workers of now have. Workers that are asleep
    share processors: each needs one for the part of the time that it computes.
    """
    shares = split_batch(rank)
    if shares is None:
        return None
    needed = ceil(rank.seconds_of_batch / rank.step - 1e-3)
    if rank.workers:
        if find_engagement(rank) < ENGAGED:
            return None
        # Workers that never rest are too few, even if their mean is enough.
        needed = max(needed, rank.workers + 1)
    running = shares.computing + shares.asleep
    use = max(shares.computing / running if running else 1.0, LEAST_USE)
    theirs = min(find_engagement(rank), 1.0) * max(rank.workers, 1) * shares.computing
    most = round((rank.usable * (1.0 - rank.busy) + theirs) / use)
    found = max(min(needed, most), 1)
    return found if found > rank.workers else None


def find_engagement(rank: Rank) -> float:
    """Return the share of the time that workers fetch and send batches; the rest of it they wait for orders."""
    # A thread of the worker sends its batches: that is work too.
    working = max(rank.fetching, rank.cpu)
    return working / rank.batches / (max(rank.workers, 1) * rank.interval) if rank.batches else 0.0


def find_pace(rank: Rank) -> float:
    """Return the seconds in which all workers together prepare one batch, if no line holds them up."""
    return rank.seconds_of_batch / max(rank.workers, 1)
