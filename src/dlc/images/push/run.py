"""Pushes a built image: blobs, then the manifest by its digest; verifies what is served; moves the tags last."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dlc.core.errors import ImageError
from dlc.core.labels import FRAMEWORK
from dlc.engine.connection import Engine
from dlc.images.push.referrer import attach
from dlc.images.push.registry.repository import Manifest, Repository
from dlc.images.push.saved import Descriptor, Saved, saved
from dlc.images.push.saved import manifest as manifest_of
from dlc.images.push.tags import tags
from dlc.images.push.upload import Uploads
from dlc.images.push.verify import Inspected, MismatchError, require_same, verify
from dlc.images.push.workspace import workspace
from dlc.plan.plan import Plan

Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """One image to push: what `docker image inspect` says of it, and where it goes below the destination's path."""

    id: str
    ref: str
    framework: str
    tags: tuple[str, ...]
    inspected: Inspected


@dataclass(frozen=True)
class Pushed:
    """An image in a registry. `uploaded` bytes went over the wire; 0 if all of it was there."""

    id: str
    repository: str
    digest: str  # of the manifest in the registry
    bill_of_materials: str  # digest of the manifest of its SPDX document
    tags: tuple[str, ...]
    uploaded: int
    seconds: float


def orders(
    plan: Plan, inspected: Mapping[str, Inspected], keys: Mapping[str, str], sets: Sequence[str] = ()
) -> tuple[Order, ...]:
    """What to push, given what the engine has under each reference: its `inspect` and its content key. Pure.

    `sets` are the user's texts of --set.

    Raises ImageError for every image that is not there or was built from other sources.
    """
    stale = [d for d in plan.decisions(keys) if d.build and d.id in plan.selected]
    if stale:
        raise ImageError(
            "\n".join(f"{d.id}: expected an image built from these sources, found: {d.why}" for d in stale),
            f"dlc build {shlex.join([*(d.id for d in stale), *(word for text in sets for word in ('--set', text))])}",
        )
    found = []
    for target in (plan.target(identifier) for identifier in plan.selected):
        ref = target.tags[0]
        labels = inspected[ref]["Config"]["Labels"]
        found.append(Order(target.id, ref, labels[FRAMEWORK], tags(ref, labels), inspected[ref]))
    return tuple(found)


def push(
    order: Order, repository: Repository, engine: Engine, compression: str, say: Say, bill: Callable[[], bytes]
) -> Pushed:
    """Push one image; tags are moved after the registry was seen to serve it. Raises RegistryError and others.

    `bill` makes the bill of materials, which is attached before any tag moves.
    """
    start = time.monotonic()
    uploaded = 0
    manifest = _there_already(order, repository, compression)
    if manifest is None:
        repository.require_writable()
        with workspace(order.inspected["Size"]) as folder, saved(engine, order.ref, folder) as image:
            require_same(order.inspected, f"{order.ref} as saved", len(image.members.layers), image.config)
            manifest, uploaded = _upload(image, repository, compression, say)
        verify(order.inspected, repository, manifest.digest)
    attached = attach(repository, manifest, bill)
    for tag in order.tags:
        _move(repository, tag, manifest)
    seconds = time.monotonic() - start
    return Pushed(order.id, repository.name, manifest.digest, attached, order.tags, uploaded, seconds)


def _there_already(order: Order, repository: Repository, compression: str) -> Manifest | None:
    """The manifest of this image if the repository has all of it under one of its tags, with this compression."""
    for tag in order.tags:
        found = repository.manifest(tag)
        if found and all(layer["mediaType"].endswith(compression) for layer in found.content["layers"]):
            with suppress(MismatchError):
                return verify(order.inspected, repository, found.digest)
    return None


def _upload(image: Saved, repository: Repository, compression: str, say: Say) -> tuple[Manifest, int]:
    """Send the blobs that the repository lacks, then the manifest by its digest. Returns it and the bytes sent."""
    uploads = Uploads(repository, say)
    layers: dict[str, Descriptor] = {}  # by diff id: two steps can leave equal layers, such as empty ones
    diff_ids = json.loads(image.config)["rootfs"]["diff_ids"]
    for diff_id, member in zip(diff_ids, image.members.layers, strict=True):
        if diff_id not in layers:
            layers[diff_id] = image.write_layer(member, diff_id, compression)
            uploads.add(layers[diff_id]["digest"], image.blob(layers[diff_id]["digest"]))
    config = image.write_config()
    uploads.add(config["digest"], image.blob(config["digest"]))
    uploads.finish()
    made = manifest_of(config, [layers[diff_id] for diff_id in diff_ids])
    repository.put_manifest(made.digest, made)
    return made, uploads.sent


def _move(repository: Repository, tag: str, manifest: Manifest) -> None:
    """Move a tag to the manifest, and check that it was moved."""
    if _digest(repository, tag) != manifest.digest:
        repository.put_manifest(tag, manifest)
        if (found := _digest(repository, tag)) != manifest.digest:
            raise MismatchError(f"{repository.name}:{tag}", manifest.digest, found)


def _digest(repository: Repository, tag: str) -> str:
    found = repository.manifest(tag)
    return found.digest if found else "no manifest"
