"""The names of an image: repository and tag, as in `pytorch:2.13.0-training-cpu-py311-bookworm`. Pure.

A push signs the names that it gives to an image in the image's provenance. Whoever may push to a registry can put any
image under any tag there, so a name that no signer gave the image is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from dlc.core.errors import ImageError
from dlc.core.labels import FRAMEWORK
from dlc.proof.opening import Refusal
from dlc.proof.provenance import Origin
from dlc.registry.tags import make_tags


def make_name(repository: str, tag: str) -> str:
    """Return the name of a tag in a repository, of which only the last part counts: copies lie below other paths."""
    return f"{repository.rpartition('/')[2]}:{tag}"


def list_names(repository: str, tags: Iterable[str]) -> tuple[str, ...]:
    """Return the names of these tags in a repository."""
    return tuple(make_name(repository, tag) for tag in tags)


def list_tags(names: Iterable[str], repository: str) -> tuple[str, ...]:
    """Return the tags of the names that are in this repository."""
    start = make_name(repository, "")
    return tuple(name.removeprefix(start) for name in names if name.startswith(start))


def find_names(origin: Origin, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that a provenance gives to its image, whose labels these are.

    The provenances of dlc 1.0 say no names. Without --set they follow from the labels.
    """
    if not origin.names and not origin.sets:
        with suppress(ImageError):
            return list_names(labels.get(FRAMEWORK, ""), make_tags(origin.id, labels))
    return origin.names


def list_name_faults(asked: str, names: Sequence[str]) -> Iterator[Refusal]:
    """Yield what speaks against the name under which an image was asked for. An empty one was asked by its digest."""
    if asked and not names:
        yield Refusal(
            "name-unknown",
            f"expected a provenance that says the image's names, found one without, and {asked} as the image's name",
        )
    elif asked and asked not in names:
        yield Refusal("name-of-another-image", f"expected {' or '.join(names)} as its provenance says, found {asked}")
