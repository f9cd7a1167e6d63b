"""Checks that a registry serves the image that was built, or planned: manifest, configuration, length of layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dlc.core.errors import RegistryError
from dlc.plan.targets import Target
from dlc.registry.client.repository import Manifest, Repository, make_digest

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
    manifest, config = _read_image(repository, digest)
    require_same(inspected, f"{repository.name}@{digest}", len(manifest.content["layers"]), config)
    _require_layers(repository, manifest)
    return manifest


def find_planned(repository: Repository, tag: str, target: Target) -> Manifest | None:
    """Return the image that a tag means; None if there is no such tag, or if the plan builds another image."""
    found = repository.manifest(tag)
    with suppress(MismatchError):
        return verify_planned(repository, found.digest, target) if found else None
    return None


def verify_planned(repository: Repository, digest: str, target: Target) -> Manifest:
    """Return the manifest that the repository serves under `digest`, after a check that it is the image of the plan.

    No engine has what a builder pushed: the image's labels are compared, of which the content key is one. Raises
    MismatchError as `verify_served` does.
    """
    manifest, config = _read_image(repository, digest)
    where = f"{repository.name}@{digest}"
    labels = (_parse_config(where, len(manifest.content["layers"]), config).get("config") or {}).get("Labels") or {}
    for name, value in target.labels.items():
        if labels.get(name) != value:
            raise MismatchError(where, f"{name}={value}", f"{name}={labels.get(name, '')}")
    _require_layers(repository, manifest)
    return manifest


def _read_image(repository: Repository, digest: str) -> tuple[Manifest, bytes]:
    """Return a manifest and its configuration, each with the bytes that its digest says. Raises MismatchError."""
    manifest = repository.manifest(digest)
    if manifest is None or manifest.digest != digest:
        raise MismatchError(f"{repository.name}@{digest}", digest, manifest.digest if manifest else "no manifest")
    name = manifest.content["config"]["digest"]
    config = repository.blob(name)
    if config is None or make_digest(config) != name:
        raise MismatchError(f"{repository.name}: configuration", name, make_digest(config) if config else "none")
    return manifest, config


def _require_layers(repository: Repository, manifest: Manifest) -> None:
    """Raise MismatchError for a layer that is missing, or of another length."""
    for layer in manifest.content["layers"]:
        size = repository.size(layer["digest"])
        if size != layer["size"]:
            found = "none" if size is None else f"{size} bytes"
            raise MismatchError(f"{repository.name}: layer {layer['digest']}", f"{layer['size']} bytes", found)


def _parse_config(where: str, layers: int, config: bytes) -> Mapping[str, Any]:
    """Parse the configuration of an image of so many layers. Raises MismatchError."""
    try:
        content: dict[str, Any] = json.loads(config)
        diff_ids = len(content["rootfs"]["diff_ids"])
        dict((content.get("config") or {}).get("Labels") or {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MismatchError(where, "an image's configuration", "other JSON") from None
    if layers != diff_ids:
        raise MismatchError(where, f"a layer for each of {diff_ids} diff ids", str(layers))
    return content


def require_same(inspected: Inspected, where: str, layers: int, config: bytes) -> None:
    """Raise MismatchError unless this configuration and so many layers are those of the built image."""
    if what := find_difference(inspected, _parse_config(where, layers, config)):
        raise MismatchError(where, "the built image", f"one that differs in {what}")


def find_difference(inspected: Inspected, config: Mapping[str, Any]) -> str:
    """Tell what differs between a configuration and the image that `docker image inspect` describes; empty if nothing.

    The diff ids are the digests of the uncompressed layers: equal lists, equal content whatever the compression.
    """
    if config["rootfs"]["diff_ids"] != inspected["RootFS"]["Layers"]:
        return "its layers (diff ids)"
    if config.get("created") != inspected["Created"]:
        return f"its date, {config.get('created')} for {inspected['Created']}"
    built, found = inspected["Config"], config.get("config") or {}
    for name in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User", "Labels"):
        if (built.get(name) or None) != (found.get(name) or None):
            return f"its {name}"
    return ""
