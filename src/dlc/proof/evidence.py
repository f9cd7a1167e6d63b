"""Reads from a registry what is attached to an image; every blob is compared with the digest that names it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dlc.core.errors import ProofError, RegistryError
from dlc.core.labels import CREATED
from dlc.proof.dsse import BUNDLES
from dlc.proof.opening import Evidence, Refusal
from dlc.registry.client.http import ANSWER_BYTES, TooLargeError, UnreadableError
from dlc.registry.client.repository import INDEXES, Manifest, Repository, make_digest
from dlc.registry.read_image import list_platforms, parse_labels
from dlc.registry.referrers import SPDX
from dlc.registry.simple_signing import SignedPayload, make_signature_tag, read_signature

# Digests of what is attached and cannot be read, each with the reason.
Unread = list[tuple[str, str]]


def find_manifest(repository: Repository, registry: str, reference: str) -> Manifest:
    """Return the image, or the index over the images of several platforms, that a reference means.

    Raises RegistryError if the registry has none, ProofError if it serves other bytes than the digest says.
    """
    found = repository.any_manifest(reference)
    if found is None:
        raise RegistryError(
            f"{registry}/{repository.name}: expected an image {reference}, found none", "check the reference"
        )
    if reference.startswith("sha256:") and found.digest != reference:
        raise refuse_content(f"{repository.name}@{reference}", found.digest)
    return found


def list_images(repository: Repository, registry: str, reference: str) -> tuple[str, ...]:
    """Return the digests of the images that a reference means: one, or those of all platforms in an index.

    Raises as `find_manifest` does, and RegistryError for an index without an image.
    """
    found = find_manifest(repository, registry, reference)
    if found.kind not in INDEXES:
        return (found.digest,)
    if not (listed := list_platforms(found)):
        raise RegistryError(
            f"{registry}/{repository.name}: expected an image {reference}, found an index without images",
            "check the reference",
        )
    return tuple(digest for digest, _ in listed)


def read_evidence(repository: Repository, registry: str, reference: str) -> Evidence:
    """Read an image, by its tag or its digest, and all that is attached to it.

    Raises RegistryError if the registry has no such image, ProofError if it serves other bytes than it says.
    """
    manifest = find_manifest(repository, registry, reference)
    if manifest.kind in INDEXES:
        raise RegistryError(
            f"{registry}/{repository.name}: expected an image {reference}, found an index", "push the image again"
        )
    data = read_blob(repository, manifest.content["config"]["digest"])
    config, labels = _parse_config(repository, data), parse_labels(data)
    found = read_attached(repository, registry, manifest)
    created = str(labels.get(CREATED) or config.get("created", ""))
    return replace(found, config=str(manifest.content["config"]["digest"]), created=created, labels=labels)


def read_attached(repository: Repository, registry: str, manifest: Manifest) -> Evidence:
    """Read what is attached to a manifest, which may be an index: it has no labels of its own, and no date."""
    unread: Unread = []
    attached = _read_referrers(repository, manifest, unread)
    signatures = tuple(_read_signatures(repository, manifest, unread))
    return Evidence(
        reference=f"{registry}/{repository.name}@{manifest.digest}",
        digest=manifest.digest,
        created="",
        labels={},
        config="",
        signatures=signatures,
        unread=tuple(unread),
        **attached,
    )


def refuse_content(where: str, found: str) -> ProofError:
    """Return the error for bytes that do not have the digest under which a registry serves them."""
    refusal = Refusal("content-differs", f"expected {where}, found bytes with the digest {found}")
    return ProofError(str(refusal), "the registry's storage is damaged or somebody changed it: push the image again")


def _parse_config(repository: Repository, data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RegistryError(f"{repository.name}: expected the configuration of an image as JSON, found other bytes")
    return found


def read_blob(repository: Repository, digest: str) -> bytes:
    """Return a blob. Raises RegistryError if it is not there, ProofError for other bytes."""
    data = repository.blob(digest)
    if data is None:
        raise RegistryError(f"{repository.name}: expected the blob {digest}, found none", "push the image again")
    if make_digest(data) != digest:
        raise refuse_content(f"{repository.name}: blob {digest}", make_digest(data))
    return data


def _read_signatures(repository: Repository, image: Manifest, unread: Unread) -> Iterator[SignedPayload]:
    """Yield cosign's signatures, under the tag where they lie."""
    manifest = repository.manifest(make_signature_tag(image.digest))
    for layer in manifest.content["layers"] if manifest else ():
        try:
            signature = read_signature(layer)
        except ValueError:
            # It verifies nothing, as an empty one does.
            signature = b""
        if signature is not None and (data := _try_document(repository, layer, unread)) is not None:
            yield SignedPayload(data, signature)


def _read_referrers(repository: Repository, image: Manifest, unread: Unread) -> dict[str, tuple[bytes, ...]]:
    """Return the bundles and the bills of materials that refer to the image; what is neither is left alone."""
    bundles: list[bytes] = []
    bills: list[bytes] = []
    for found in repository.referrers(image.digest):
        kind, digest = str(found.get("artifactType", "")), str(found.get("digest", ""))
        if not (kind.startswith(BUNDLES) or kind == SPDX):
            continue
        (bills if kind == SPDX else bundles).extend(_read_documents(repository, digest, unread))
    return {"bundles": tuple(bundles), "bills": tuple(bills)}


def _read_documents(repository: Repository, digest: str, unread: Unread) -> Iterator[bytes]:
    """Yield the documents of a referrer that can be read."""
    try:
        manifest = repository.manifest(digest)
    except UnreadableError as error:
        unread.append((digest, error.message))
        return
    if manifest is None or manifest.digest != digest:
        unread.append((digest, f"it has the digest {manifest.digest}" if manifest else "it is not there"))
        return
    for layer in manifest.content["layers"]:
        if (data := _try_document(repository, layer, unread)) is not None:
            yield data


def _try_document(repository: Repository, layer: Mapping[str, Any], unread: Unread) -> bytes | None:
    """Return the bytes of a document; None if nobody can read them."""
    try:
        return read_document(repository, layer)
    except ValueError as error:
        unread.append((str(layer["digest"]), str(error)))
        return None


def read_document(repository: Repository, layer: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document that is attached. Raises ValueError if it is not there, too large or other bytes.

    Whoever may push attaches what he wants: it must not hide what else is attached.
    """
    digest = str(layer["digest"])
    if layer["size"] > ANSWER_BYTES:
        raise ValueError(f"it has {layer['size'] >> 20} MiB, a statement has {ANSWER_BYTES >> 20} at most")
    try:
        data = repository.blob(digest)
    except TooLargeError as error:
        raise ValueError(error.message) from None
    if data is None:
        raise ValueError("it is not there")
    if make_digest(data) != digest:
        raise ValueError(f"it has the digest {make_digest(data)}")
    return data
