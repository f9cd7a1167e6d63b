"""Whether two data hosts serve the same samples, as far as a few prints of them tell. Pure.

The print of a sample is a list of its leaves: text for a leaf that is equal or not, a list of numbers for floats, which
processors compute a little differently, and None for a leaf that came out otherwise when it was made again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from dlc_runtime.dataservice.schedule.assignment import Permutation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Print = Sequence[Any]

# Samples that a data host draws.
MANY = 16
# If fewer differ, chance in the user's code may be the reason that did not show when the host made them twice: a step
# that acts on every twentieth sample.
FEWEST_OTHERS = 4
# Of the largest number of a leaf.
TOLERANCE = 1e-3
_KEY = 57


class Likeness(NamedTuple):
    """Numbers among the samples that were drawn: those that differ, and how many could be compared."""

    others: tuple[int, ...]
    compared: int

    @property
    def is_of_other_data(self) -> bool:
        return len(self.others) >= max(FEWEST_OTHERS, self.compared / 4)


def choose(samples: int) -> list[int]:
    """Return which samples are drawn: the same on every data host, some again if there are few."""
    order = Permutation(samples, _KEY) if samples else ()
    return [order[number % samples] for number in range(MANY if samples else 0)]


def compare(ours: Sequence[Print], theirs: Sequence[Print]) -> Likeness:
    """Compare the prints of two hosts, sample by sample, as far as both have drawn.

    A leaf that came out otherwise on a host for one sample is left out for all. So is a leaf that is the same in all
    samples of a host, on both: it tells of the host, as its name does, and not of the sample.
    """
    pairs = [(number, mine, other) for number, (mine, other) in enumerate(zip(ours, theirs)) if mine and other]
    left_out = _find_unsteady([*ours, *theirs]) | (_find_constant(ours) & _find_constant(theirs))
    others = tuple(number for number, mine, other in pairs if _differ(mine, other, left_out))
    return Likeness(others, len(pairs))


def is_alike(mine: Any, other: Any) -> bool:
    """Return whether two leaves are equal, floats nearly."""
    if not (isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other)):
        return bool(mine == other)
    bound = TOLERANCE * max(map(abs, (*mine, *other)), default=0.0)
    return all(abs(one - two) <= bound for one, two in zip(mine, other))


def _differ(mine: Print, other: Print, left_out: set[int]) -> bool:
    both = enumerate(itertools.zip_longest(mine, other))
    return any(at not in left_out and not is_alike(*leaves) for at, leaves in both)


def _find_unsteady(prints: Sequence[Print]) -> set[int]:
    return {at for leaves in prints for at, leaf in enumerate(leaves) if leaf is None}


def _find_constant(prints: Sequence[Print]) -> set[int]:
    drawn = [leaves for leaves in prints if leaves]
    if not drawn:
        return set()
    return {at for at, leaf in enumerate(drawn[0]) if all(at < len(leaves) and leaves[at] == leaf for leaves in drawn)}
