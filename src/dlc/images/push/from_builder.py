"""Verifies an image that a builder pushed, and moves its tags: there is no engine that it could be compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlc.images.push.promote import move_tag
from dlc.images.push.registry.repository import KINDS, Manifest, Repository, make_digest
from dlc.images.push.verify import MismatchError
from dlc.plan.targets import Target


def find_built(repository: Repository, tag: str, target: Target) -> Manifest | None:
    """Return the image that a tag means, if it is what the plan builds; None for another one, and for none."""
    found = repository.manifest(tag)
    try:
        return verify_built(repository, found.digest, target) if found else None
    except MismatchError:
        return None


def verify_built(repository: Repository, digest: str, target: Target) -> Manifest:
    """Return what the repository serves under `digest`, after a check that it is the image of the plan, and whole.

    Raises MismatchError for other bytes, other labels (the content key is one), and layers that are missing.
    """
    where = f"{repository.name}@{digest}"
    found = repository.any_manifest(digest)
    if found is None or found.digest != digest or found.kind not in KINDS:
        raise MismatchError(where, digest, "no manifest" if found is None else f"{found.kind} {found.digest}")
    content = found.content
    name = str(content["config"]["digest"])
    config = repository.blob(name)
    if config is None or make_digest(config) != name:
        raise MismatchError(f"{repository.name}: configuration", name, make_digest(config) if config else "none")
    _require_labels(where, config, target, len(content["layers"]))
    for layer in content["layers"]:
        if (size := repository.size(layer["digest"])) != layer["size"]:
            raise MismatchError(
                f"{repository.name}: layer {layer['digest']}", f"{layer['size']} bytes",
                "none" if size is None else f"{size} bytes",
            )  # fmt: skip
    return found


def _require_labels(where: str, config: bytes, target: Target, layers: int) -> None:
    try:
        said: Mapping[str, Any] = json.loads(config)
        labels = said["config"].get("Labels") or {}
        count = len(said["rootfs"]["diff_ids"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MismatchError(where, "an image's configuration", "other JSON") from None
    if count != layers:
        raise MismatchError(where, f"a layer for each of {count} diff ids", str(layers))
    for name, value in target.labels.items():
        if labels.get(name) != value:
            raise MismatchError(where, f"{name}={value}", f"{name}={labels.get(name, '')}")


def move_tags(repository: Repository, image: Manifest, tags: tuple[str, ...]) -> None:
    """Move tags to an image that was verified, each read back."""
    for tag in tags:
        move_tag(repository, tag, image)
