"""Judges, element by element, whether what a way computes is what eager computes. Works on tensors only.

Two right programs round differently, and how far that spreads depends on the model. So a tensor that is not equal
within a few roundings is judged by more passes: eager again, with each weight moved by about one rounding.
"""

from __future__ import annotations

import math

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NamedTuple
else:
    from typing import NamedTuple

OUTPUT, GRADIENT, WRITTEN = "outputs", "gradients", "what it writes"
# Largest difference of an element, as a share of the tensor's largest: no third pass is needed up to here.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 4e-3}
# Times the difference that one rounding of each weight makes. The largest element of few is found by chance more than
# the norm is.
LARGEST, NORM = 6.0, 4.0
# Of a part that all elements share, such as a factor of 1.01.
ALONG = 2.5
# A tensor that one rounding of the weights changes by more than this share is nothing but rounding.
ROUNDING_ONLY = 0.25
# Elements that are compared at once.
MOST_AT_ONCE = 1 << 24
# Share of all gradients, by norm, that may be so.
MOST_ROUNDING = 0.1
# A sum of terms that cancel, as the gradient of a bias before a batch norm, has the rounding of its terms: roundings of
# the largest gradient.
ROUNDINGS_OF_SUM = 64.0
# Part of the tolerance for a difference that all elements share: roundings fall to both sides.
SHARED = 0.25
# Of what is written: roundings of the value before.
ROUNDINGS_OF_VALUE = 2.0


class DifferentError(Exception):
    """What the way computes is not what eager computes."""


class NotComparedError(Exception):
    """Eager and the way cannot be compared: why."""


class Seen(NamedTuple):
    """A tensor that a pass has made. `before`: what stood where it is written."""

    kind: str
    name: str
    value: torch.Tensor
    before: torch.Tensor | None = None

    @property
    def key(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def words(self) -> str:
        return {
            OUTPUT: "its outputs",
            GRADIENT: f"the gradient of {self.name}",
            WRITTEN: f"what it writes to {self.name}",
        }[self.kind]


class Gap(NamedTuple):
    """How far a tensor is from eager's: largest element, norm, and part along eager's, in units of the tensor."""

    largest: float
    norm: float
    along: float


class Size(NamedTuple):
    largest: float
    norm: float
    elements: int


def check(
    reference: Mapping[str, Seen], found: Mapping[str, Seen], shift: Callable[[], list[Mapping[str, Seen]]]
) -> str:
    """Return in words how close `found` is; raise DifferentError, or NotComparedError if rounding is all there is.

    `shift` makes eager's passes with weights that are moved by a rounding; it is called only if it is needed.
    """
    missing = [name for name in {**reference, **found} if name not in reference or name not in found]
    if missing:
        whose = "eager" if missing[0] in found else "it"
        raise DifferentError(f"{whose} does not make {(found.get(missing[0]) or reference[missing[0]]).words}")
    least = least_gradient(reference)
    compared = [
        Compared(one, *measure(one, found[name]), tolerance(one), floor(one, least)) for name, one in reference.items()
    ]
    doubtful = [each for each in compared if not each.gap.largest <= each.own * each.size.largest + each.floor]
    kinds = {kind: [each for each in compared if each.one.kind == kind] for kind in (OUTPUT, GRADIENT, WRITTEN)}
    said = ", ".join(f"{kind} within {max(map(share, held)):.2g}" for kind, held in kinds.items() if held)
    if not doubtful:
        return f"as eager: {said}"
    judge_by_rounding(doubtful, shift())
    if sum(each.size.norm**2 for each in doubtful if each.is_rounding) > MOST_ROUNDING * sum(
        each.size.norm**2 for each in kinds[GRADIENT]
    ):
        raise NotComparedError("a rounding of the weights changes its gradients as much as any fault would")
    return f"as eager: {said}, which is what a rounding of the weights changes too"


class Compared:
    """A tensor of both: how far it is from eager's, and what is allowed without more passes."""

    def __init__(self, one: Seen, gap: Gap, size: Size, own: float, floor: float) -> None:
        self.one, self.gap, self.size, self.own, self.floor = one, gap, size, own, floor
        # A rounding of the weights changes it by much: no fault could be seen in it.
        self.is_rounding = False

    def allow(self, noise: Gap) -> Gap:
        """Return what is allowed if a rounding of each weight makes such a difference."""
        size, floor = self.size, self.floor
        if noise.norm > ROUNDING_ONLY * size.norm:
            # As large as eager's, by any pass, is all that can be asked.
            self.is_rounding = self.one.kind == GRADIENT
            most = LARGEST * (noise.norm + size.norm) + floor
            return Gap(most, most, most)
        root = max(size.elements, 1) ** 0.5
        return Gap(
            self.own * size.largest + floor + LARGEST * noise.largest,
            self.own * size.norm + floor * root + NORM * noise.norm,
            SHARED * self.own * size.norm + floor * root + ALONG * noise.along + NORM * noise.norm / root,
        )


def judge_by_rounding(doubtful: list[Compared], shifted: list[Mapping[str, Seen]]) -> None:
    """Raise if a difference is larger than what one rounding of each weight makes of it."""
    for each in doubtful:
        noises = [measure(each.one, seen[each.one.key], True)[0] for seen in shifted if each.one.key in seen]
        allowed = each.allow(Gap(*map(max, zip(Gap(0.0, 0.0, 0.0), *noises))))
        for what, how_far, most, whole in zip(
            ("", " by norm", " in size"), each.gap, allowed, (each.size.largest, each.size.norm, each.size.norm)
        ):
            if not how_far <= most:
                raise DifferentError(
                    f"it differs from eager by {share_of(how_far, whole):.2g} in {each.one.words}{what}, "
                    f"{share_of(most, whole):.2g} is allowed"
                )


def least_gradient(seen: Mapping[str, Seen]) -> float:
    """Return the rounding of a sum of terms that cancel."""
    found = [largest_of(each.value) for each in seen.values() if each.kind == GRADIENT]
    return ROUNDINGS_OF_SUM * float(torch.finfo(torch.float32).eps) * max(found, default=0.0)


def measure(one: Seen, other: Seen, is_noise: bool = False) -> tuple[Gap, Size]:
    """Compare two tensors of a kind, part by part; what is not finite must be the same in both.

    `is_noise`: weights were moved; elements that are not finite in one of the two tell nothing of how others spread.
    """
    left, right = one.value, other.value.to(one.value.device)
    if left.shape != right.shape or left.dtype != right.dtype:
        raise DifferentError(
            f"in {one.words} it has shape {tuple(right.shape)} and {right.dtype}, "
            f"eager {tuple(left.shape)} and {left.dtype}"
        )
    if not left.numel():
        return Gap(0.0, 0.0, 0.0), Size(0.0, 0.0, 0)
    if not (left.is_floating_point() or left.is_complex()):
        unequal = float((left != right).double().mean())
        return Gap(unequal, unequal, unequal), Size(1.0, 1.0, left.numel())
    before = None if one.before is None else in_parts(one.before)
    parts = [
        measure_part(left, right, None if before is None else before[number], is_noise)
        for number, (left, right) in enumerate(zip(in_parts(left), in_parts(right)))
    ]
    gaps, norms, alongs, bases, sizes = (list(column) for column in zip(*parts))
    norm = sum(sizes) ** 0.5
    along = abs(sum(alongs)) / norm if norm else 0.0
    return Gap(max(gaps), sum(norms) ** 0.5, along), Size(max(bases), norm, one.value.numel())


def in_parts(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return pieces of a tensor: what is computed of all of it at once would take several times its memory."""
    found: tuple[torch.Tensor, ...] = value.detach().flatten().split(MOST_AT_ONCE)
    return found


def measure_part(
    left: torch.Tensor, right: torch.Tensor, before: torch.Tensor | None, is_noise: bool
) -> tuple[float, ...]:
    """Return the largest gap, its square sum, gap times base, the largest of the base, and its square sum."""
    left, right = in_full(left), in_full(right)
    finite = torch.isfinite(left)
    if is_noise:
        finite &= torch.isfinite(right)
    elif not is_same_beyond(finite, left, right):
        return float("inf"), float("inf"), float("inf"), 1.0, 1.0
    base = left
    if before is not None:
        before = in_full(before)
        # Such a value is no place to measure a change from: the smallest number seen so far begins with infinity.
        base = torch.where(torch.isfinite(before), left - before, left)
    gap, base = (torch.where(finite, value, 0.0) for value in (right - left, base))
    sums = (gap.double().square().sum(), (gap * base).double().sum(), base.double().square().sum())
    squares, along, size = map(float, sums)
    return float(gap.abs().max()), squares, along, float(base.abs().max()), size


def is_same_beyond(finite: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether both have the same infinities and the same that is no number where `left` is not finite."""
    if not torch.equal(finite, torch.isfinite(right)):
        return False
    if bool(finite.all()):
        return True
    one, two = left[~finite], right[~finite]
    return bool(torch.equal(one.isnan(), two.isnan()) and torch.equal(one > 0, two > 0))


def largest_of(value: torch.Tensor) -> float:
    """Return the largest finite element, 0 if there is none."""
    if not value.numel():
        return 0.0
    found = float(value.abs().max())
    return found if math.isfinite(found) else float(value.abs().nan_to_num(0.0, 0.0, 0.0).max())


def in_full(value: torch.Tensor) -> torch.Tensor:
    value = torch.view_as_real(value) if value.is_complex() else value
    return value if value.dtype == torch.float64 else value.float()


def tolerance(one: Seen) -> float:
    return TOLERANCES.get(one.value.dtype, 0.0)


def floor(one: Seen, least: float) -> float:
    """Return what is rounded away: in a sum of gradients, and where a small change is added to a large value."""
    if one.kind == GRADIENT:
        return least if one.value.is_floating_point() and one.value.dtype != torch.float64 else 0.0
    if one.before is None or not one.before.is_floating_point():
        return 0.0
    return ROUNDINGS_OF_VALUE * float(torch.finfo(one.before.dtype).eps) * largest_of(one.before)


def share(each: Compared) -> float:
    return share_of(each.gap.largest, each.size.largest)


def share_of(part: float, whole: float) -> float:
    return part / whole if whole else (0.0 if part == 0 else float("inf"))
