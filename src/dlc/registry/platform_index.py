"""One tag for the images of several platforms: an OCI index over them, once all are in the registry.

Each platform's image has tags of its own: the one with its content key, and for linux/arm64 those with `arm64` in them.
The tags that an image of one platform has alone (`2.21.0-training-cpu-py311-bookworm`) then mean the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dlc.core.platforms import split_suffix
from dlc.registry.client.repository import INDEX, Manifest, Repository, describe_blob
from dlc.registry.tag_age import Claim, Newer, find_newer
from dlc.registry.tags import move_tag


@dataclass(frozen=True)
class Family:
    """The images that are one under a tag. `own`: platform -> the tag with its image's content key."""

    own: Mapping[str, str]
    # The tags that mean all of them.
    shared: tuple[str, ...]

    def find_others(self, repository: Repository, platform: str) -> dict[str, Manifest]:
        """Return the images of all other platforms; nothing if one of them is not in the registry."""
        found = {name: repository.manifest(tag) for name, tag in self.own.items() if name != platform}
        there = {name: manifest for name, manifest in found.items() if manifest}
        return there if len(there) == len(found) else {}


@dataclass(frozen=True)
class PlatformIndex:
    """An index that is in a registry: its manifest, the image of each platform in it, and the tags that mean it.

    `own`: platform -> the tag with its image's content key.
    """

    manifest: Manifest
    images: Mapping[str, Manifest]
    own: Mapping[str, str]
    tags: tuple[str, ...]


def make_index(images: Mapping[str, Manifest]) -> Manifest:
    """Return the index over the images of these platforms: the same whichever was pushed first. Pure."""
    entries = []
    for name in sorted(images):
        system, _, architecture = name.partition("/")
        image = images[name]
        entries.append(
            {**describe_blob(image.kind, image.data), "platform": {"architecture": architecture, "os": system}}
        )
    return Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})


def put_index(repository: Repository, identifier: str, image: Manifest, family: Family | None) -> PlatformIndex | None:
    """Put an index over an image and those of all other platforms into the registry, by its digest.

    None if the image of another platform is not there, or the image has no family.
    """
    platform = split_suffix(identifier)[1].name
    others = family.find_others(repository, platform) if family else {}
    if not (family and others):
        return None
    images = {**others, platform: image}
    index = make_index(images)
    repository.put_manifest(index.digest, index)
    return PlatformIndex(index, images, family.own, family.shared)


def move_tags(
    repository: Repository, image: Manifest, tags: tuple[str, ...], index: PlatformIndex | None,
    say: Callable[[str], None], claim: Claim,
) -> tuple[tuple[str, ...], tuple[Newer, ...]]:  # fmt: skip
    """Move the tags of an image that was verified; return those that mean it now, and those that mean a newer image.

    If there is an index over all platforms, the tags that the image shares with the others mean the index. Raises
    MismatchError.
    """
    shared = index.tags if index else ()
    newer = find_newer(repository, list(dict.fromkeys((*tags, *shared))), claim)
    kept = {each.tag for each in newer}
    own = tuple(tag for tag in tags if tag not in shared and tag not in kept)
    shared = tuple(tag for tag in shared if tag not in kept)
    for tag in own:
        move_tag(repository, tag, image)
    for tag in shared:
        move_tag(repository, tag, index.manifest if index else image)
    if index and shared:
        say(f"{index.manifest.digest}: {', '.join(sorted(index.images))} under {', '.join(shared)}")
    return (*own, *shared), newer
