"""Keeps a tag from going back: compares the commit in whose name a tag moves with the image that the tag means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dlc.core.errors import OlderImageError
from dlc.core.labels import CREATED, KEY, format_time, parse_time
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.read_image import read_all_labels

BACK = "a newer commit has set the tag; --back sets it to the older image all the same"


@dataclass(frozen=True)
class Claim:
    """In whose name tags move: the image's content key, and the time of the commit that wants it.

    That commit may be a later one than the image was built from: a commit that takes a change back has an old image.
    """

    key: str
    # None if nobody knows: then every tag moves.
    moment: datetime | None
    # Tags move to an older image too.
    back: bool = False


@dataclass(frozen=True)
class Newer:
    """A tag that means an image of a newer commit."""

    tag: str
    digest: str
    # When that commit was made, as labels have it.
    created: str


@dataclass(frozen=True)
class Move:
    """A tag that meant another image before. The times are those of the commits, empty if an image says none."""

    tag: str
    before: str
    before_created: str
    created: str

    @property
    def is_back(self) -> bool:
        """Tell whether the tag goes to an older image."""
        return bool(self.created) and self.created < self.before_created


def make_claim(labels: Mapping[str, str], epoch: int = 0, *, back: bool = False) -> Claim:
    """Return the claim of an image with these labels, by a commit of this time; without a time by the image's own."""
    moment = datetime.fromtimestamp(epoch, UTC) if epoch else parse_time(labels.get(CREATED, ""))
    return Claim(labels.get(KEY, ""), moment, back)


def find_newer(repository: Repository, tags: Sequence[str], claim: Claim) -> tuple[Newer, ...]:
    """Find those of the tags that mean an image of a newer commit, and of another content."""
    if claim.back or claim.moment is None:
        return ()
    found = []
    for tag in tags:
        there = repository.any_manifest(tag)
        labels = list(read_all_labels(repository, there)) if there else []
        times = [moment for each in labels if (moment := parse_time(each.get(CREATED, "")))]
        is_same = claim.key in {each.get(KEY) for each in labels}
        if there and times and not is_same and max(times) > claim.moment:
            found.append(Newer(tag, there.digest, format_time(max(times))))
    return tuple(found)


def require_no_newer(where: str, newer: Sequence[Newer], claim: Claim) -> None:
    """Raise OlderImageError if there are tags of a newer commit. `where` is the repository with its registry."""
    if newer and claim.moment:
        expected = f"expected an image of {format_time(claim.moment)} or before"
        lines = [f"{where}:{each.tag}: {expected}, found one of {each.created} ({each.digest})" for each in newer]
        raise OlderImageError("\n".join(lines), BACK)


def find_moves(source: Repository, target: Repository, named: Sequence[tuple[str, Manifest]]) -> tuple[Move, ...]:
    """Find those of the tags, each with an image of the source, that mean another image in the target."""
    found = []
    for tag, image in named:
        there = target.any_manifest(tag)
        if there and there.digest != image.digest:
            found.append(Move(tag, there.digest, _read_created(target, there), _read_created(source, image)))
    return tuple(found)


def _read_created(repository: Repository, image: Manifest) -> str:
    """Return the time of the newest commit that an image, or an index of images, is of; empty if there is none."""
    times = [time for each in read_all_labels(repository, image) if (time := parse_time(each.get(CREATED, "")))]
    return format_time(max(times)) if times else ""
