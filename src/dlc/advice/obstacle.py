"""Whether machines are what a measured job needs: something else can bound it, or the figures do not explain it. Pure.

The cost model knows vCPUs, accelerators and the network. A step that waits for another reason takes as long on any of
them, for all that is known; so its figures are the measured ones, and no others are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlc.advice.cost_model import COMPUTING as MODEL_COMPUTING
from dlc.advice.decide import Advice, keep_machines
from dlc.advice.profile_report import Profile
from dlc.advice.profile_text import advise_workers
from dlc.advice.rank import Rank
from dlc.advice.verdict import (
    COMPUTING,
    ELSEWHERE,
    INPUT,
    OTHERS,
    PROCESSORS,
    UNEVEN,
    UNKNOWN,
    WORKERS,
    find_pace,
    split_batch,
)

# A step that takes so many times what its vCPUs explain takes it for another reason.
EXPLAINED = 1.4
# So much of a machine is all of it: a container has a little less.
WHOLE = 0.9
# A container gets no less of a processor.
LEAST_PROCESSORS = 0.001
UNSEEN, MORE = "what could not be seen", "what it waits for was not measured"
SHARED = "preprocessing and training share them; what more vCPUs bring was not measured"


@dataclass(frozen=True)
class Obstacle:
    """What bounds a step in place of machines, and what to do first."""

    bound: str
    why: str


def find_obstacle(profile: Profile, step: float, cpu: float) -> Obstacle | None:
    """Return why machines are not what this job needs; None if vCPUs and accelerators explain its step."""
    rank, kind = profile.slowest, profile.kind
    more = advise_workers(rank)
    first = f"first {more}, then measure again" if more else ""
    if kind == COMPUTING and not _would_read(rank, step):
        return None
    if kind in (INPUT, COMPUTING):
        return Obstacle("reading", first or "a faster storage, or fewer and larger files, then measure again")
    if kind == WORKERS:
        return Obstacle("too few workers", first)
    if kind == UNEVEN:
        return Obstacle("a few slow batches", "first look at the samples of those, then measure again")
    if kind == OTHERS:
        return Obstacle("other programs", "first measure on a host that is free")
    if kind == UNKNOWN:
        return Obstacle("what too few steps do not tell", "first measure more steps")
    if kind == ELSEWHERE and rank.batches:
        return Obstacle(UNSEEN, MORE)
    explained = max(step, cpu * profile.ranks_on_host / max(rank.usable, LEAST_PROCESSORS))
    if find_interval(profile, step) <= EXPLAINED * explained:
        return None
    return Obstacle(
        UNSEEN,
        f"the CPU seconds of a batch explain {explained * 1000:.1f} ms of a step, the rest of it is not known",
    )


def hold_against(profile: Profile, advice: Advice) -> Advice:
    """Return the advice, or the measured step alone if what was measured contradicts the model."""
    job, now = advice.job, advice.now
    obstacle = find_obstacle(profile, job.step, job.cpu)
    seconds = find_interval(profile, job.step)
    if obstacle is None and profile.kind != COMPUTING and now.bound == MODEL_COMPUTING:
        usable, vcpus = profile.slowest.usable, now.cluster.training.vcpus
        if usable < WHOLE * vcpus:
            return replace(advice, why=f"{vcpus} vCPUs are enough by the model; the report's {usable:g} were not")
        obstacle = Obstacle("processors", SHARED) if profile.kind == PROCESSORS else Obstacle(UNSEEN, MORE)
    return keep_machines(now.cluster, job, obstacle.bound, seconds, obstacle.why) if obstacle else advice


def find_interval(profile: Profile, step: float) -> float:
    """Return the seconds of a step with its measured wait; `step` is the same or that of another accelerator."""
    rank = profile.slowest
    if not rank.workers:
        return rank.waiting / rank.steps + step
    # Workers go on while the accelerator computes: a shorter step waits for longer.
    return max(step, find_pace(rank) if profile.kind == COMPUTING else profile.interval)


def _would_read(rank: Rank, step: float) -> bool:
    """Tell whether a step of another accelerator, which is shorter than the measured one, would wait for reading."""
    shares = split_batch(rank)
    return bool(
        shares and shares.asleep > max(shares.computing, shares.queued) and rank.workers and find_pace(rank) > step
    )
