"""Reads an image of a registry: what a reference means, the image's configuration, and its labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

from dlc.core.errors import ImageError, RegistryError
from dlc.registry.client.repository import DAMAGED, INDEXES, Manifest, Repository, make_digest

# BuildKit keeps its own attestations in an index, beside the images, as if for this platform.
NO_PLATFORM = "unknown"
PUSH = "dlc push GLOB --to REGISTRY/REPO, with the registry that it is to be promoted from"


def find_image(source: Repository, reference: str) -> Manifest:
    """Return what a tag or a digest of a repository means.

    Raises ImageError if there is nothing, RegistryError for a manifest that does not have the digest.
    """
    found = source.any_manifest(reference)
    if found is None:
        raise ImageError(f"{source.name}: expected an image under {reference}, found none", PUSH)
    if reference.startswith("sha256:") and found.digest != reference:
        raise RegistryError(f"{source.name}: expected the manifest {reference}, found {found.digest}", DAMAGED)
    return found


def list_platforms(index: Manifest) -> list[tuple[str, str]]:
    """Return the digest and the platform of each image in an index.

    Entries of no platform are left out: no engine takes them for an image.
    """
    found = [(str(each["digest"]), each.get("platform") or {}) for each in index.content["manifests"]]
    return [
        (digest, "/".join(str(platform[key]) for key in ("os", "architecture", "variant") if platform.get(key)))
        for digest, platform in found
        if platform.get("os") != NO_PLATFORM
    ]


def read_labels(source: Repository, image: Manifest) -> Mapping[str, str]:
    """Return the labels of an image, or of the first platform's in an index. Raises RegistryError, ImageError."""
    while image.kind in INDEXES:
        if not (members := list_platforms(image)):
            raise RegistryError(f"{source.name}@{image.digest}: expected an image, found an index without any", PUSH)
        image = find_image(source, members[0][0])
    return parse_labels(read_config(source, image))


def read_config(source: Repository, image: Manifest) -> bytes:
    """Return an image's configuration. Raises RegistryError for other bytes than its digest says."""
    name = str(image.content["config"]["digest"])
    config = source.blob(name)
    if config is None or make_digest(config) != name:
        raise RegistryError(f"{source.name}: expected the configuration {name}, found other bytes", DAMAGED)
    return config


def parse_labels(config: bytes) -> Mapping[str, str]:
    """Return the labels in an image's configuration; none if it holds no texts by name, as of an image of others."""
    with suppress(ValueError, RecursionError, TypeError, LookupError):
        labels = json.loads(config)["config"]["Labels"]
        if isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()):
            return labels
    return {}


def read_all_labels(repository: Repository, image: Manifest) -> Iterator[Mapping[str, str]]:
    """Yield the labels of an image, or of each image in an index; none for what is damaged or not there."""
    is_index = image.kind in INDEXES
    for each in (repository.manifest(digest) for digest, _ in list_platforms(image)) if is_index else [image]:
        config = repository.blob(str(each.content["config"]["digest"])) if each else None
        yield parse_labels(config or b"")
