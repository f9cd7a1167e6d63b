"""Turns what a user calls an image, an identifier or a Docker reference, into the Docker reference."""

from __future__ import annotations

from collections.abc import Sequence

from dlc.buildspec.problems import did_you_mean
from dlc.buildspec.variant import Variant
from dlc.core.errors import SelectorError


def find(word: str, variants: Sequence[Variant]) -> tuple[str, Variant | None]:
    """The Docker reference that `word` stands for, and the image of the buildspec where it is one of its images.

    A word without `:`, `/` and `@` can only be an identifier: raises SelectorError when there is none of that name.
    """
    for variant in variants:
        if word in (variant.id, variant.ref):
            return variant.ref, variant
    if not set(word) & set(":/@"):
        known = [variant.id for variant in variants]
        inside = [name for name in known if name.startswith(f"{word}-")]
        near = did_you_mean(word, known) or "\n    ".join(["known:", *(inside or known)])
        raise SelectorError(
            f"{word}: no such image; {near}", "`dlc list`, or a Docker reference such as dlc/pytorch:TAG"
        )
    return word, None
