"""Reads an image of a registry: what a reference means, the image's configuration, and its labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

from dlc.core.errors import ImageError, RegistryError
from dlc.images.push.registry.repository import DAMAGED, INDEXES, Manifest, Repository, make_digest

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


def read_labels(source: Repository, image: Manifest) -> Mapping[str, str]:
    """Return the labels of an image, or of the first platform's in an index. Raises RegistryError, ImageError."""
    while image.kind in INDEXES:
        if not image.content["manifests"]:
            raise RegistryError(f"{source.name}@{image.digest}: expected an image, found an index without any", PUSH)
        image = find_image(source, str(image.content["manifests"][0]["digest"]))
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
    members = [repository.manifest(str(each["digest"])) for each in image.content.get("manifests", ())]
    for each in members if image.kind in INDEXES else [image]:
        config = repository.blob(str(each.content["config"]["digest"])) if each else None
        yield parse_labels(config or b"")
