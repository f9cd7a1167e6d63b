"""Selects images by globs over their identifiers, or one by its identifier or Docker reference."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Sequence

from dlc.buildspec.variant import Variant
from dlc.buildspec.versions import parse_number
from dlc.checked_yaml.problems import did_you_mean
from dlc.core.errors import SelectorError
from dlc.core.image_references import is_reference


def select_images(globs: Sequence[str], identifiers: Iterable[str], apart: Collection[str] = ()) -> tuple[str, ...]:
    """Return the identifiers that any glob matches, in their own order; no glob selects all.

    Those in `apart`, of other platforms than the one that is asked for, are selected by their whole identifier alone.
    Raises SelectorError for each glob without a match, with the identifiers or versions that come near it.
    """
    known = tuple(identifiers)
    offered = [name for name in known if name not in apart]
    lost = [glob for glob in globs if glob not in known and not fnmatch.filter(offered, glob)]
    if lost:
        message = "\n".join(f"{glob}: no such image{_make_hint(glob, offered, apart)}" for glob in lost)
        raise SelectorError(message, "`dlc list` shows every image; quote globs: 'pytorch-*-cpu-*'")
    return tuple(
        name for name in known
        if name in globs
        or (name in offered and (not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)))
    )  # fmt: skip


def hint_at_prefix(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'pytorch-2.13-*'?` for a word that identifiers begin with, or an empty text."""
    return f"did you mean '{word}-*'?" if any(name.startswith(f"{word}-") for name in known) else ""


def _make_hint(glob: str, known: Sequence[str], apart: Collection[str]) -> str:
    if fnmatch.filter(apart, glob):
        return " of this platform; --platform chooses another one"
    if hint := hint_at_prefix(glob, known):
        return f"; {hint}"
    framework, _, rest = glob.partition("-")
    versions = sorted({name.split("-")[1] for name in known if name.split("-")[0] == framework}, key=parse_number)
    version = rest.partition("-")[0]
    if versions and version and not fnmatch.filter(versions, version):
        return f"; known versions of {framework}: {', '.join(versions)}"
    if near := did_you_mean(glob, known):
        return f"; {near}"
    frameworks = sorted({name.split("-")[0] for name in known})
    return f"; {did_you_mean(framework, frameworks) or 'known frameworks: ' + ', '.join(frameworks)}"


def find_image(word: str, variants: Sequence[Variant]) -> tuple[str, Variant | None]:
    """Return the Docker reference that `word` stands for, and the image of the buildspec if it is one of its images.

    A word without `:`, `/` and `@` can only be an identifier: raises SelectorError when there is none of that name.
    """
    for variant in variants:
        if word in (variant.id, variant.ref):
            return variant.ref, variant
    if not is_reference(word):
        known = [variant.id for variant in variants]
        inside = [name for name in known if name.startswith(f"{word}-")]
        near = did_you_mean(word, known) or "\n    ".join(["known:", *(inside or known)])
        raise SelectorError(
            f"{word}: no such image; {near}", "`dlc list`, or a Docker reference such as dlc/pytorch:TAG"
        )
    return word, None
