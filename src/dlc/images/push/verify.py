"""Checks that a registry serves the built image: manifest, configuration, and the length of every layer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlc.core.errors import RegistryError
from dlc.images.push.registry.repository import Manifest, Repository, make_digest

# What `docker image inspect` says of the built image.
Inspected = Mapping[str, Any]


class MismatchError(RegistryError):
    """A registry does not serve the built image."""

    def __init__(self, where: str, expected: str, found: str) -> None:
        super().__init__(
            f"{where}: expected {expected}, found {found}",
            "no tag was moved; check the registry's storage, or push to another repository",
        )


def verify_served(inspected: Inspected, repository: Repository, digest: str) -> Manifest:
    """Return the manifest that the repository serves under `digest`, after a check that it is the built image.

    Raises MismatchError for other bytes, another configuration, and layers that are missing or of another length.
    """
    manifest = repository.manifest(digest)
    if manifest is None or manifest.digest != digest:
        raise MismatchError(f"{repository.name}@{digest}", digest, manifest.digest if manifest else "no manifest")
    content = manifest.content
    name = content["config"]["digest"]
    config = repository.blob(name)
    if config is None or make_digest(config) != name:
        raise MismatchError(f"{repository.name}: configuration", name, make_digest(config) if config else "none")
    require_same(inspected, f"{repository.name}@{digest}", len(content["layers"]), config)
    for layer in content["layers"]:
        size = repository.size(layer["digest"])
        if size != layer["size"]:
            found = "none" if size is None else f"{size} bytes"
            raise MismatchError(f"{repository.name}: layer {layer['digest']}", f"{layer['size']} bytes", found)
    return manifest


def require_same(inspected: Inspected, where: str, layers: int, config: bytes) -> None:
    """Raise MismatchError unless this configuration and so many layers are those of the built image."""
    try:
        content = json.loads(config)
        what = find_difference(inspected, content)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MismatchError(where, "the built image's configuration", "JSON that is no image configuration") from None
    diff_ids = len(content["rootfs"]["diff_ids"])
    if layers != diff_ids:
        raise MismatchError(where, f"a layer for each of {diff_ids} diff ids", str(layers))
    if what:
        raise MismatchError(where, "the built image", f"one that differs in {what}")


def find_difference(inspected: Inspected, config: Mapping[str, Any]) -> str:
    """Tell what differs between a configuration and the image that `docker image inspect` describes; empty if nothing.

    The diff ids are the digests of the uncompressed layers: equal lists, equal content whatever the compression.
    """
    if config["rootfs"]["diff_ids"] != inspected["RootFS"]["Layers"]:
        return "its layers (diff ids)"
    if config.get("created") != inspected["Created"]:
        return f"its date, {config.get('created')} for {inspected['Created']}"
    built, found = inspected["Config"], config.get("config", {})
    for name in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User", "Labels"):
        if (built.get(name) or None) != (found.get(name) or None):
            return f"its {name}"
    return ""
