"""One tag for the images of several platforms: an OCI index over them, once all are in the registry.

Each platform's image has tags of its own: the one with its content key, and for linux/arm64 those with `arm64` in them.
The tags that an image of one platform has alone (`2.21.0-training-cpu-py311-bookworm`) then mean the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dlc.core.platforms import split_suffix
from dlc.images.push.registry.repository import INDEX, Manifest, Repository, describe_blob
from dlc.images.push.tag_age import Claim, Newer, find_newer
from dlc.images.push.tags import move_tag


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


def move_tags(
    repository: Repository, identifier: str, image: Manifest, tags: tuple[str, ...], family: Family | None,
    say: Callable[[str], None], claim: Claim,
) -> tuple[tuple[str, ...], tuple[Newer, ...]]:  # fmt: skip
    """Move the tags of an image that was verified; return those that mean it now, and those that mean a newer image.

    If the images of all other platforms are there, the tags that it shares with them mean an index over all.
    Raises MismatchError.
    """
    platform = split_suffix(identifier)[1].name
    others = family.find_others(repository, platform) if family else {}
    shared = family.shared if family and others else ()
    newer = find_newer(repository, list(dict.fromkeys((*tags, *shared))), claim)
    kept = {each.tag for each in newer}
    own = tuple(tag for tag in tags if tag not in shared and tag not in kept)
    shared = tuple(tag for tag in shared if tag not in kept)
    for tag in own:
        move_tag(repository, tag, image)
    if shared:
        images = {**others, platform: image}
        index = make_index(images)
        repository.put_manifest(index.digest, index)
        for tag in shared:
            move_tag(repository, tag, index)
        say(f"{index.digest}: {', '.join(sorted(images))} under {', '.join(shared)}")
    return (*own, *shared), newer
