"""One tag for the images of several platforms: an OCI index over them, once all are in the registry.

Each platform's image has tags of its own: the one with its content key, and for linux/arm64 those with `arm64` in them.
The tags that an image of one platform has alone (`2.21.0-training-cpu-py311-bookworm`) then mean the index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlc.images.push.promote import move_tag
from dlc.images.push.registry.repository import INDEX, Manifest, Repository


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
        descriptor = {"mediaType": image.kind, "digest": image.digest, "size": len(image.data)}
        entries.append({**descriptor, "platform": {"architecture": architecture, "os": system}})
    content = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
    return Manifest(json.dumps(content, separators=(",", ":")).encode(), INDEX)


def publish_index(repository: Repository, images: Mapping[str, Manifest], tags: Sequence[str]) -> Manifest:
    """Store the index over images that the registry has, and move the tags to it. Raises MismatchError."""
    index = make_index(images)
    repository.put_manifest(index.digest, index)
    for tag in tags:
        move_tag(repository, tag, index)
    return index
