"""How far a job got in an epoch: `state_dict`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

FORMAT = 1


def to_runs(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return different ids as runs of neighbours: (first, one past the last), in order."""
    return merge_runs((id_, id_ + 1) for id_ in ids)


def merge_runs(*parts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the runs of several ranks as one. Raises SettingError if two have the same id."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(run for part in parts for run in part):
        if first < 0 or end <= first or (found and first < found[-1][1]):
            raise SettingError(f"state of a data loader: the batches {first} to {end - 1} are empty or there twice")
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return tuple(found)


def missing_ids(done: Iterable[tuple[int, int]], count: int) -> Iterator[int]:
    """Yield the ids below `count` that are in no run, in order."""
    at = 0
    for first, end in done:
        yield from range(at, min(first, count))
        at = end
    yield from range(at, count)


class Progress(NamedTuple):
    """One rank's place. Ordered: each of `world` ranks took `taken` batches from `start` on; else `done` are done.

    `merged`: `done` is the work of all ranks, not of this one alone.
    """

    epoch: int
    start: int = 0
    taken: int = 0
    world: int = 1
    done: tuple[tuple[int, int], ...] = ()
    merged: bool = False

    @property
    def next_start(self) -> int:
        """Return where a job with any number of ranks resumes."""
        return self.start + self.taken * self.world


def to_state(progress: Progress, order: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return `state_dict`'s value: plain numbers and lists, which every checkpoint format takes."""
    state = {**progress._asdict(), "done": [list(run) for run in progress.done]}
    return {"format": FORMAT, "order": order, "data": dict(data), **state}


def from_state(state: Mapping[str, Any], order: str, data: Mapping[str, Any] | None) -> Progress:
    """Read a state. Raises SettingError for another order or other data: the ids mean other samples."""
    if state.get("format") != FORMAT:
        raise SettingError(f"state of a data loader: expected format {FORMAT}, found {state.get('format')!r}")
    if state["order"] != order:
        raise SettingError(
            f"state of a data loader: it was saved with order={state['order']!r}, this loader has order={order!r}"
        )
    if data is not None and dict(state["data"]) != dict(data):
        raise SettingError(
            f"state of a data loader: it belongs to other data; saved {dict(state['data'])}, now {dict(data)};"
            " the ids of batches would mean other samples"
        )
    done = tuple((int(first), int(end)) for first, end in state["done"])
    epoch, start, taken, world = (int(state[name]) for name in ("epoch", "start", "taken", "world"))
    return Progress(epoch, start, taken, world, done, bool(state["merged"]))


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the states of all ranks, for a job with any number of ranks.

    Raises SettingError if they do not belong together.
    """
    first = dict(states[0])
    for state in states:
        if any(state[name] != first[name] for name in ("format", "order", "data", "epoch", "start", "taken", "world")):
            raise SettingError(
                f"states of a data loader: they are not of one step of one job: {first} and {dict(state)}"
            )
    done = merge_runs(*(state["done"] for state in states))
    return {**first, "done": [list(run) for run in done], "merged": True}
