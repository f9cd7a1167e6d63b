"""Pushes a built image: blobs, then the manifest by its digest; verifies what is served; moves the tags last."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dlc.core.atomic_files import require_room, scratch_folder
from dlc.core.errors import ImageError
from dlc.core.labels import FRAMEWORK
from dlc.engine.docker_client import Engine
from dlc.plan.plan import Plan
from dlc.plan.targets import Target
from dlc.registry.client.repository import Descriptor, Manifest, Repository, make_manifest
from dlc.registry.layers import Saved, Uploads, open_saved
from dlc.registry.platform_index import Family, PlatformIndex, move_tags, put_index
from dlc.registry.referrers import Document, attach_bill
from dlc.registry.tag_age import Claim, Newer
from dlc.registry.tags import make_tags
from dlc.registry.verify import Inspected, MismatchError, require_same, verify_served

Say = Callable[[str], None]
WORKSPACE_PREFIX = "dlc-push-"


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
    # Digest of the manifest in the registry.
    digest: str
    # Digest of the manifest of its SPDX document.
    bill_of_materials: str
    tags: tuple[str, ...]
    uploaded: int
    seconds: float
    # What was signed about it, and about the index over it and the images of other platforms.
    attached: tuple[Document, ...] = ()
    # Tags that were left, because they mean an image of a newer commit.
    newer: tuple[Newer, ...] = ()


def make_orders(
    plan: Plan, inspected: Mapping[str, Inspected], keys: Mapping[str, str], sets: Sequence[str] = ()
) -> tuple[Order, ...]:
    """Return what to push, given what the engine has under each reference. That is its `inspect` and its content key.

    Pure.

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
        _require_labels(target, labels)
        found.append(Order(target.id, ref, labels[FRAMEWORK], make_tags(ref, labels), inspected[ref]))
    return tuple(found)


def _require_labels(target: Target, labels: Mapping[str, str]) -> None:
    """Raise ImageError if an image of the right content key has other labels: no build of dlc made it."""
    for name, value in target.labels.items():
        if labels.get(name) != value:
            raise ImageError(
                f"{target.tags[0]}: expected the label {name}={value}, found {labels.get(name, 'none')}",
                f"somebody tagged another image so: dlc build {target.id}, after docker rmi {target.tags[0]}",
            )


class Proof(Protocol):
    """Attaches what is signed about an image, before its tags move."""

    def prove(self, repository: Repository, image: Manifest) -> tuple[Document, ...]:
        """Attach what is signed about an image; return that."""

    def prove_index(self, repository: Repository, index: PlatformIndex) -> tuple[Document, ...]:
        """Attach what is signed about an index over the image and those of other platforms; return that."""


def push_image(
    order: Order,
    repository: Repository,
    engine: Engine,
    compression: str,
    say: Say,
    bill: Callable[[], bytes],
    claim: Claim,
    proof: Proof | None = None,
    family: Family | None = None,
) -> Pushed:
    """Push one image; tags are moved after the registry was seen to serve it. Raises RegistryError and others.

    `bill` makes the bill of materials, which is attached before any tag moves; `proof` attaches what is signed.
    `claim` says in whose name tags move; `family` are the images of other platforms that share tags with it.
    """
    start = time.monotonic()
    uploaded = 0
    manifest = _find_complete(order, repository, compression)
    if manifest is None:
        repository.require_writable()
        with open_workspace(order.inspected["Size"]) as folder, open_saved(engine, order.ref, folder) as image:
            require_same(order.inspected, f"{order.ref} as saved", len(image.members.layers), image.config)
            manifest, uploaded = _upload_image(image, repository, compression, say)
        verify_served(order.inspected, repository, manifest.digest)
    document = attach_bill(repository, manifest, bill)
    attached = proof.prove(repository, manifest) if proof else ()
    index = put_index(repository, order.id, manifest, family)
    if proof and index:
        attached += proof.prove_index(repository, index)
    tags, newer = move_tags(repository, manifest, order.tags, index, say, claim)
    seconds = time.monotonic() - start
    return Pushed(order.id, repository.name, manifest.digest, document, tags, uploaded, seconds, attached, newer)


def _find_complete(order: Order, repository: Repository, compression: str) -> Manifest | None:
    """Return the image's manifest if the repository has all of it under one of its tags, so compressed."""
    for tag in order.tags:
        found = repository.manifest(tag)
        if found and all(layer["mediaType"].endswith(compression) for layer in found.content["layers"]):
            with suppress(MismatchError):
                return verify_served(order.inspected, repository, found.digest)
    return None


def _upload_image(image: Saved, repository: Repository, compression: str, say: Say) -> tuple[Manifest, int]:
    """Send the blobs that the repository lacks, then the manifest by its digest. Returns it and the bytes sent."""
    uploads = Uploads(repository, say)
    # By diff id: two steps can leave equal layers, such as empty ones.
    layers: dict[str, Descriptor] = {}
    diff_ids = json.loads(image.config)["rootfs"]["diff_ids"]
    for diff_id, member in zip(diff_ids, image.members.layers, strict=True):
        if diff_id not in layers:
            layers[diff_id] = image.write_layer(member, diff_id, compression)
            uploads.add(layers[diff_id]["digest"], image.blob(layers[diff_id]["digest"]))
    config = image.write_config()
    uploads.add(config["digest"], image.blob(config["digest"]))
    uploads.finish()
    made = make_manifest(config, [layers[diff_id] for diff_id in diff_ids])
    repository.put_manifest(made.digest, made)
    return made, uploads.sent


@contextmanager
def open_workspace(size: int) -> Iterator[Path]:
    """Make an empty folder for an image of `size` bytes. Raises DiskError if the disk has too little room."""
    with scratch_folder(WORKSPACE_PREFIX) as folder:
        # The saved image and its compressed layers lie there.
        require_room(folder.parent, size + size // 2, "for the layers", "TMPDIR")
        yield folder
