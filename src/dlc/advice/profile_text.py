"""What was measured of a job, in words: figures, what it waits for, what to do first, how sure that is. Pure."""

from __future__ import annotations

from dlc.advice.profile_report import Profile
from dlc.advice.rank import Rank
from dlc.advice.verdict import (
    AHEAD,
    BUSY,
    COMPUTING,
    ELSEWHERE,
    INPUT,
    LEAST_STEPS,
    OTHERS,
    PROCESSORS,
    QUEUED,
    RESTING,
    TAKEN,
    UNEVEN,
    UNKNOWN,
    WAITS,
    WORKERS,
    Shares,
    find_engagement,
    find_kind,
    find_workers,
    split_batch,
)

# Share of the time: with free processors lines are short.
LINES = 0.5
# Steps; fewer can be chance. Each worker's first batches are there before training begins.
FEW, FEW_OF_WORKER = 30, 2 * AHEAD
# So near a bound it could be on the other side of it.
NEAR = 0.02
# Share of the time that GPUs work: with less, a step is something else.
IDLE_GPU = 0.5
# Rows of ranks: the ones that wait most, and the one that waits least.
MOST_ROWS = 8
TITLES = {
    COMPUTING: "not waiting for data", PROCESSORS: "CPU-bound", OTHERS: "other programs took the processors",
    WORKERS: "too few workers", INPUT: "bound by reading", UNEVEN: "a few slow batches",
    ELSEWHERE: "what for could not be seen", UNKNOWN: "cannot be told",
}  # fmt: skip


# In so many looks a worker must have been asleep, before a word is said of what it waited in.
LOOKS = 10
_NAMES = {
    "files": "in files", "sockets": "in sockets", "pipes": "in pipes", "sleep": "in calls of sleep", "lock": "in locks",
    "programs": "for other programs to end",
}  # fmt: skip
_WAITS_IN = {
    "": ("for files or the network", "the storage"),
    "files": ("for files or the network, here for files", "the storage"),
    "sockets": ("for files or the network, here for the network or another process", "what answers there"),
    "pipes": ("for another process, in a pipe", "that process"),
    "sleep": ("for files or the network, here in calls of sleep", "who calls sleep: a retry, a limit of a rate"),
    "lock": ("for a lock", "who holds it: another thread of the worker"),
    "programs": ("for programs that they start to end", "these programs"),
}


def summarize(profile: Profile) -> str:
    """Write what was measured, and which kind it is."""
    first = profile.slowest
    shared = "at most " if profile.framework == "tensorflow" and profile.gpu_use is None else ""
    cpu = "unknown" if profile.cpu is None else f"{shared}{profile.cpu:.3f}"
    workers = f"{first.workers} worker{'s'[: first.workers - 1]} of each rank"
    by = workers if first.workers else "the training process"
    rows = [
        ("step with the data ready", f"{profile.step * 1000:.1f} ms"),
        ("waiting for data", describe_waiting(profile)),
        ("before the first batch", f"{profile.starting:.0%} of the time"),
        ("preprocessing", f"{cpu} CPU seconds for a batch, by {by}"),
        ("processors", f"{profile.busy:.0%} of {first.usable:g} busy"),
        ("other programs", _describe_taken(profile)),
        ("GPUs", "unknown" if profile.gpu_use is None else f"{profile.gpu_use:.0%} busy"),
        ("a batch", f"{profile.batch_bytes / 1e6:.3f} MB"),
    ]
    if shares := _known_shares(first):
        parts = f"computing {shares.computing:.0%}, in a line for a processor {shares.queued:.0%}"
        rows.insert(4, ("the time of a batch", f"{parts}, asleep {shares.asleep:.0%}{_describe_asleep(first)}"))
    steps = sum(rank.steps for rank in profile.ranks)
    compiled = sum(rank.compiled_steps for rank in profile.ranks)
    if compiled:
        seconds = sum(rank.compiling for rank in profile.ranks)
        rows.append(("left out", f"{compiled} steps in which something was compiled, {seconds:.1f} s"))
    lines = [
        f"{steps} steps of {profile.framework} on {len(profile.ranks)} rank{'s'[: len(profile.ranks) - 1]}",
        *(f"  {n:<26}{v}" for n, v in rows),
    ]
    return "\n".join([*lines, *_list_ranks(profile), *explain_kind(profile), describe_sureness(profile)])


def describe_waiting(profile: Profile) -> str:
    """Write the share of the waiting; of ranks that differ the least and the most, and no mean."""
    least, most = min(rank.wait for rank in profile.ranks), profile.slowest.wait
    return f"{least:.0%} to {most:.0%} of the time" if profile.differ else f"{profile.waiting:.0%} of the time"


def find_asleep(rank: Rank) -> str:
    """Return what workers wait in for most of the time that they are asleep; nothing if that is not known."""
    seen = rank.asleep_in or {}
    most = max(seen, key=lambda name: seen[name], default="")
    return most if most and seen[most] > sum(seen.values()) / 2 >= LOOKS / 2 else ""


def _describe_asleep(rank: Rank) -> str:
    found = find_asleep(rank)
    return f" ({_NAMES[found]})" if found in _NAMES else ""


def _known_shares(rank: Rank) -> Shares | None:
    return split_batch(rank) if rank.queued is not None else None


def _list_ranks(profile: Profile) -> list[str]:
    """Write a row for each rank, if they differ."""
    if not profile.differ:
        return []
    found = sorted(profile.ranks, key=lambda rank: -rank.wait)
    shown = found if len(found) <= MOST_ROWS else [*found[: MOST_ROWS - 1], found[-1]]
    left_out = len(found) - len(shown)
    rows = [
        f"  rank {rank.number} on {rank.host}: waits {rank.wait:.0%} of the time,"
        f" {rank.step * 1000:.1f} ms for a step: {TITLES[find_kind(rank)]}"
        for rank in shown
    ]
    more = [f"  and {left_out} ranks between the last two"] if left_out else []
    return [f"the ranks differ: the figures above are those of rank {profile.slowest.number}", *rows, *more]


def _describe_taken(profile: Profile) -> str:
    if profile.taken is None:
        return "unknown"
    return f"took {profile.taken:.0%} of the host's {profile.slowest.host_cpus:g} processors"


def describe_sureness(profile: Profile) -> str:
    """Tell how sure the answer is, and what speaks against it."""
    rank, kind = profile.slowest, profile.kind
    doubts = []
    if rank.steps < max(FEW, FEW_OF_WORKER * rank.workers):
        doubts.append(f"only {rank.steps} steps were measured")
    if kind != OTHERS and (profile.taken or 0.0) >= TAKEN:
        doubts.append(f"other programs {_describe_taken(profile)}")
    if _is_near(rank, kind):
        doubts.append("a figure is close to a bound")
    if kind in (WORKERS, INPUT) and profile.taken is None:
        doubts.append("what other programs took could not be seen")
    if kind in (WORKERS, INPUT) and (profile.pressure or 0.0) >= LINES:
        doubts.append(f"programs stood in a line for a processor {profile.pressure:.0%} of the time")
    if kind in (OTHERS, INPUT, WORKERS) and rank.queued is None and not rank.shared_threads:
        doubts.append("how long workers stood in a line for a processor could not be seen")
    if rank.host_cpus and rank.stolen >= TAKEN * rank.host_cpus:
        doubts.append(f"the host below this virtual host took {rank.stolen / rank.host_cpus:.0%} of its processors")
    if kind in (ELSEWHERE, UNKNOWN):
        doubts.append("no figure tells what it is")
    return f"not sure: {'; '.join(doubts)}" if doubts else "sure: nothing that was measured speaks against it"


def _is_near(rank: Rank, kind: str) -> bool:
    """Tell whether a figure that decided is so near its bound that it could be on the other side."""
    if abs(rank.wait - WAITS) < NEAR or (kind != COMPUTING and abs(rank.busy - BUSY) < NEAR):
        return True
    shares = _known_shares(rank)
    if shares is None or kind not in (INPUT, WORKERS, OTHERS, PROCESSORS):
        return False
    return abs(shares.asleep - max(shares.computing, shares.queued)) < NEAR or abs(shares.queued - QUEUED) < NEAR


def explain_kind(profile: Profile) -> list[str]:
    """Tell which kind it is, and what to do first."""
    rank, kind = profile.slowest, profile.kind
    lines = [f"{_title(rank, kind)}: {_EXPLAIN[kind](rank)}"]
    if kind == COMPUTING and profile.gpu_use is not None and profile.gpu_use < IDLE_GPU:
        lines.append(
            f"the GPUs work {profile.gpu_use:.0%} of the time: the rest of a step is Python, copies or other ranks"
        )
    if profile.starting > WAITS and rank.workers:
        lines.append("workers are started for each epoch: persistent_workers=True keeps them")
    return lines


def _title(rank: Rank, kind: str) -> str:
    if kind == WORKERS and rank.shared_threads and rank.parallel:
        return "a part of the pipeline is not parallel"
    return TITLES[kind]


def advise_workers(rank: Rank) -> str:
    """Say how batches are prepared side by side; nothing if more workers change nothing."""
    if rank.shared_threads:
        if rank.parallel:
            return "look for what runs one at a time: a generator, a py_function, a map without num_parallel_calls"
        return "prepare batches in parallel (tf.data: num_parallel_calls=tf.data.AUTOTUNE, prefetch)"
    found = find_workers(rank)
    if found is None:
        return ""
    return f"give the DataLoader num_workers={found}" + (f" (it has {rank.workers})" if rank.workers else "")


def _explain_full(rank: Rank) -> str:
    full = "all processors are busy" if rank.busy >= BUSY else _describe_line(rank)
    return f"{full} and training waits for data; `dlc advise` says which machines help"


def _describe_line(rank: Rank) -> str:
    """Say who stands in a line for a processor: workers, or the training process alone."""
    shares = split_batch(rank)
    if rank.workers and shares and shares.queued >= QUEUED and find_engagement(rank) >= RESTING:
        return f"workers stand in a line for a processor {shares.queued:.0%} of the time"
    return f"the training process stands in a line for a processor {rank.wait_queued:.0%} of the time"


def _explain_others(rank: Rank) -> str:
    line = f"{_describe_line(rank)}, and " if rank.queued is not None else ""
    return (
        f"{line}training waits for data; measure again on a host that is free,"
        " or give the job fewer workers than processors that are left"
    )


def _explain_reading(rank: Rank) -> str:
    more = advise_workers(rank)
    first = f"; first {more}: they wait side by side, if the storage is not full" if more else ""
    who = "workers wait" if rank.workers else "the training process waits"
    place, look = _WAITS_IN.get(find_asleep(rank), _WAITS_IN[""])
    return f"{who} {place}; more CPUs change nothing, look at {look}{first}"


def _explain_uneven(rank: Rank) -> str:
    more = advise_workers(rank) if not rank.workers and not rank.shared_threads else ""
    return (
        f"{rank.slow_batches} of {rank.timed_batches} batches took {rank.slow_share:.0%} of the time of all; look at"
        " their samples: large files, a slow disk, a retry"
        + (f"; {more}: workers prepare the next batches meanwhile" if more else "; a larger prefetch_factor hides few")
    )


def _explain_unknown(rank: Rank) -> str:
    least = max(LEAST_STEPS, AHEAD * rank.workers)
    return f"{rank.steps} steps were measured, at least {least} are needed; let the script train for longer"


def _explain_elsewhere(rank: Rank) -> str:
    if not rank.batches:
        return "training waits for data while processors are free"
    return (
        "training waits for data, but its workers prepare batches fast enough; large batches, pin_memory, or a slow"
        " queue between the processes can be the reason"
    )


_EXPLAIN = {
    COMPUTING: lambda rank: "faster preprocessing changes nothing",
    PROCESSORS: _explain_full,
    OTHERS: _explain_others,
    WORKERS: lambda rank: (
        f"training waits for data while processors are free; first {advise_workers(rank)}, then measure again"
    ),
    INPUT: _explain_reading,
    UNEVEN: _explain_uneven,
    ELSEWHERE: _explain_elsewhere,
    UNKNOWN: _explain_unknown,
}
