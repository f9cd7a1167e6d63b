"""What a retention policy keeps of a repository, and the removal of the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from dlc.core.errors import RegistryError
from dlc.core.labels import CREATED, KEY
from dlc.engine.builders import UNVERIFIED
from dlc.images.push.promote import read_labels
from dlc.images.push.registry.repository import Manifest, Repository, make_fallback_tag
from dlc.images.push.tags import OF_CONTENT, OF_DAY

Say = Callable[[str], None]
# Two clocks may be on both sides of midnight.
ONE_DAY = timedelta(days=1)
# Tags of documents: the index of referrers, and cosign's signatures and attestations.
OF_DOCUMENT = re.compile(r"sha256-([0-9a-f]{64})(\.[a-z]+)?")


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
    # Of the commit that it was built from.
    day: date
    # Digests of the images of an index over several platforms.
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
    for tag in tags:
        image = None if OF_DOCUMENT.fullmatch(tag) else repository.any_manifest(tag)
        if image:
            named.setdefault(image.digest, []).append(tag)
            images[image.digest] = image
    builds = tuple(_describe_build(repository, image, named[digest]) for digest, image in images.items())
    return Listed(builds, tuple(_list_orphans(repository, tags, images)))


def _list_orphans(repository: Repository, tags: Sequence[str], images: Mapping[str, Manifest]) -> Iterator[str]:
    """List tags of documents whose image is neither tagged nor there by its digest."""
    for tag in tags:
        match = OF_DOCUMENT.fullmatch(tag)
        digest = f"sha256:{match[1]}" if match else ""
        if digest and digest not in images and repository.any_manifest(digest) is None:
            yield tag


def _describe_build(repository: Repository, image: Manifest, tags: Sequence[str]) -> Build:
    try:
        labels: Mapping[str, Any] = read_labels(repository, image)
        day = datetime.fromisoformat(labels[CREATED]).date() if labels.get(KEY) else date.max
    except (RegistryError, ValueError, LookupError, TypeError, AttributeError):
        # It is no image of dlc: it stays.
        return Build(image.digest, tuple(sorted(tags)), "", date.max)
    members = tuple(str(each["digest"]) for each in image.content.get("manifests", ()))
    # An index has no content key.
    form = OF_DAY if members else OF_CONTENT
    stems = [match[1] for tag in tags if (match := form.fullmatch(tag.removesuffix(UNVERIFIED)))]
    return Build(image.digest, tuple(sorted(tags)), stems[0] if labels.get(KEY) and stems else "", day, members)


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

    A tag that dlc gives to no image was set by somebody who needs it. Days are those of the commits.
    """
    stems = {build.stem for build in listed.builds if build.stem}
    held = {digest for build in listed.builds for digest in build.members}
    newest: dict[str, list[str]] = {}
    for build in sorted(listed.builds, key=lambda build: (build.day, build.digest), reverse=True):
        if build.stem and build.digest not in held and not _is_unverified(build):
            newest.setdefault(build.stem, []).append(build.digest)
    found = []
    for build in sorted(listed.builds, key=lambda build: (build.stem, build.day, build.digest)):
        others = [tag for tag in build.tags if not _is_of_push(tag, build.stem)]
        age = (today - build.day).days
        why, goes = f"its commit is {age} days old", False
        if others:
            kind = "the moving tag" if set(others) <= stems else "a tag that dlc did not set"
            why = f"{kind} {others[0]} means it"
        elif build.digest in held:
            why = "an index over several platforms has it"
        elif build.digest in newest.get(build.stem, ())[: retention.keep]:
            why = f"one of the last {retention.keep} builds"
        else:
            goes = age >= retention.days
        found.append(Choice(build.digest, build.tags, goes, why))
    orphans = [Choice(tag, (tag,), True, "a document about an image that is gone") for tag in listed.orphans]
    return (*found, *orphans)


def _is_of_push(tag: str, stem: str) -> bool:
    """Tell whether a push gave the tag to this one build: a content tag or a day's."""
    match = OF_CONTENT.fullmatch(tag.removesuffix(UNVERIFIED)) or OF_DAY.fullmatch(tag)
    return bool(stem and match and match[1] == stem)


def _is_unverified(build: Build) -> bool:
    return all(tag.endswith(UNVERIFIED) for tag in build.tags)


def remove(repository: Repository, choices: Sequence[Choice], say: Say) -> list[str]:
    """Remove what was chosen, documents first; return the digests and tags that are gone.

    An image that a tag has moved to meanwhile stays.
    """
    gone = []
    for choice in (choice for choice in choices if choice.remove):
        if not choice.name.startswith("sha256:"):
            _remove_documents(repository, choice.name)
        elif added := _find_new_tags(repository, choice):
            say(f"{choice.name} stays: {', '.join(added)} means it now")
            continue
        else:
            _remove_image(repository, choice.name)
        gone.append(choice.name)
        say(f"removed {choice.name}  {' '.join(choice.tags)}")
    return gone


def _find_new_tags(repository: Repository, choice: Choice) -> list[str]:
    """Find tags that mean the image and did not when the choice was made."""
    others = [tag for tag in repository.tags() if tag not in choice.tags and not OF_DOCUMENT.fullmatch(tag)]
    return [tag for tag in others if (image := repository.any_manifest(tag)) and image.digest == choice.name]


def _remove_image(repository: Repository, digest: str) -> None:
    for document in repository.referrers(digest):
        repository.delete(str(document["digest"]))
    own = make_fallback_tag(digest)
    for tag in (tag for tag in repository.tags() if tag.startswith(own)):
        _remove_documents(repository, tag)
    repository.delete(digest)


def _remove_documents(repository: Repository, tag: str) -> None:
    """Remove what the tag of an image's documents means, by digests: not every registry removes a tag by its name."""
    found = repository.any_manifest(tag)
    for document in found.content.get("manifests", ()) if found else ():
        repository.delete(str(document["digest"]))
    if found:
        repository.delete(found.digest)
