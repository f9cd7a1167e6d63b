"""What a repository holds, and what a retention policy keeps of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from dlc.core.errors import RegistryError
from dlc.core.labels import CREATED, KEY, parse_time
from dlc.engine.builders import UNVERIFIED
from dlc.registry.client.http import TooLargeError, UnreadableError
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.read_image import read_labels
from dlc.registry.referrers import OF_DOCUMENT, is_document
from dlc.registry.tags import KEY_DIGITS, OF_CONTENT, OF_DAY

Say = Callable[[str], None]
# In a manifest that nobody can read.
NAMED = re.compile(rb"sha256:[0-9a-f]{64}")
# Two clocks may be on both sides of midnight.
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Retention:
    """Which builds stay besides those that a moving tag means: the last `keep`, and those of the last `days`."""

    keep: int
    days: int


@dataclass(frozen=True)
class Build:
    """One image of a repository with its tags."""

    digest: str
    tags: tuple[str, ...]
    # The name of its moving tag; empty if dlc did not push it.
    stem: str
    # The time of the commit that it was built from; None if the image says none.
    moment: datetime | None
    # Digests of all that an index over several platforms leads to.
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listed:
    """What a repository holds, as far as its tags tell."""

    builds: tuple[Build, ...]
    # Tags of documents about images that are gone.
    orphans: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """Whether a build or the tag of a document stays, and why."""

    name: str
    tags: tuple[str, ...]
    remove: bool
    why: str


def list_repository(repository: Repository, say: Say) -> Listed:
    """Read all tags of a repository, and what they mean."""
    tags = repository.tags()
    say(f"{repository.name}: {len(tags)} tags")
    named: dict[str, list[str]] = {}
    images: dict[str, Manifest] = {}
    documents = []
    for tag in tags:
        found = read_any(repository, tag)
        if found and OF_DOCUMENT.fullmatch(tag) and is_document(found):
            documents.append(tag)
        elif found:
            named.setdefault(found.digest, []).append(tag)
            images[found.digest] = found
    builds = tuple(_describe_build(repository, image, named[digest]) for digest, image in images.items())
    return Listed(builds, tuple(_list_orphans(repository, documents, images)))


def _list_orphans(repository: Repository, tags: Sequence[str], images: Mapping[str, Manifest]) -> Iterator[str]:
    """List tags of documents whose image is neither tagged nor there by its digest."""
    for tag in tags:
        match = OF_DOCUMENT.fullmatch(tag)
        digest = f"sha256:{match[1]}" if match else ""
        if digest and digest not in images and read_any(repository, digest) is None:
            yield tag


def _describe_build(repository: Repository, image: Manifest, tags: Sequence[str]) -> Build:
    members = tuple(list_members(repository, image))
    try:
        labels: Mapping[str, Any] = read_labels(repository, image)
        moment = parse_time(str(labels.get(CREATED)))
        key = str(labels.get(KEY) or "")
    except (RegistryError, ValueError, LookupError, TypeError, AttributeError):
        # It is no image of dlc: it stays.
        return Build(image.digest, tuple(sorted(tags)), "", None, members)
    stems = [stem for tag in tags if key and (stem := _find_stem(tag, key, is_index=bool(members)))]
    return Build(image.digest, tuple(sorted(tags)), stems[0] if stems else "", moment, members)


def _find_stem(tag: str, key: str, *, is_index: bool) -> str:
    """Return the stem of a content tag with this image's own key, or of an index's day; empty for other tags."""
    # An index has no content key.
    match = (OF_DAY if is_index else OF_CONTENT).fullmatch(tag.removesuffix(UNVERIFIED))
    is_own = match and (is_index or match[2] == key[:KEY_DIGITS])
    return match[1] if match and is_own else ""


def list_members(repository: Repository, image: Manifest) -> Iterator[str]:
    """Yield the digests of all that an index leads to, through the indexes in it too; nothing for an image."""
    seen: set[str] = set()
    left = [image]
    while left:
        for entry in left.pop().content.get("manifests", ()):
            digest = str(entry["digest"])
            if digest in seen:
                continue
            seen.add(digest)
            yield digest
            if found := read_any(repository, digest):
                left.append(found)


class Unreadable(Manifest):
    """What somebody has pushed and nobody can read: it may lead to all that it names."""

    @property
    def content(self) -> Mapping[str, Any]:
        """Return an index of each digest in the bytes."""
        named = dict.fromkeys(digest.decode() for digest in NAMED.findall(self.data))
        return {"manifests": [{"digest": digest} for digest in named], "layers": []}


def read_any(repository: Repository, reference: str) -> Manifest | None:
    """Return what a tag or a digest means, also if dlc cannot read it: by that whoever may push ends no prune."""
    try:
        return repository.any_manifest(reference)
    except TooLargeError:
        raise
    except UnreadableError as error:
        return Unreadable(error.data, "")


def find_today(repository: Repository, own: date, say: Say) -> date:
    """Return the day that counts: a clock that is ahead would make every build look old.

    `own` is the day by this machine's clock.
    """
    there = repository.read_day() or own
    if there < own - ONE_DAY:
        say(f"this machine's clock says {own}, the registry's {there}, which counts")
    return min(own, there)


def choose(listed: Listed, retention: Retention, today: date) -> tuple[Choice, ...]:
    """Choose what stays. Pure.

    A tag that dlc gives to no image was set by somebody who needs it. Days are those of the commits. What has no date
    stays, and so does each of the builds that are equally old: nothing is removed by chance.
    """
    stems = {build.stem for build in listed.builds if build.stem}
    held = {digest for build in listed.builds for digest in build.members}
    dated: dict[str, list[datetime]] = {}
    for build in listed.builds:
        is_counted = build.stem and build.digest not in held and not _is_unverified(build)
        if is_counted and build.moment and not explain_date(build, today):
            dated.setdefault(build.stem, []).append(build.moment)
    found = []
    for build in sorted(listed.builds, key=lambda build: (build.stem, str(build.moment), build.digest)):
        newer = sum(build.moment is not None and each > build.moment for each in dated.get(build.stem, ()))
        is_last = build.moment in dated.get(build.stem, ()) and newer < retention.keep
        others = [tag for tag in build.tags if not _is_of_push(tag, build.stem)]
        goes = False
        if others:
            kind = "the moving tag" if set(others) <= stems else "a tag that dlc did not set"
            why = f"{kind} {others[0]} means it"
        elif build.digest in held:
            why = "an index over several platforms has it"
        elif why := explain_date(build, today):
            pass
        elif is_last and not _is_unverified(build):
            why = f"one of the last {retention.keep} builds"
        else:
            age = (today - build.moment.date()).days if build.moment else 0
            why, goes = f"its commit is {age} days old", age >= retention.days
        found.append(Choice(build.digest, build.tags, goes, why))
    orphans = [Choice(tag, (tag,), True, "a document about an image that is gone") for tag in listed.orphans]
    return (*found, *orphans)


def explain_date(build: Build, today: date) -> str:
    """Tell why nobody knows how old a build is; empty if its date is one. Pure.

    The first second of 1970 is the date of a project outside git.
    """
    if build.moment is None or build.moment.timestamp() <= 0:
        return "it says no date of a commit"
    return f"its date is to come: {build.moment.date()}" if build.moment.date() > today + ONE_DAY else ""


def _is_of_push(tag: str, stem: str) -> bool:
    """Tell whether a push gave the tag to this one build: a content tag or a day's."""
    match = OF_CONTENT.fullmatch(tag.removesuffix(UNVERIFIED)) or OF_DAY.fullmatch(tag)
    return bool(stem and match and match[1] == stem)


def _is_unverified(build: Build) -> bool:
    return all(tag.endswith(UNVERIFIED) for tag in build.tags)
