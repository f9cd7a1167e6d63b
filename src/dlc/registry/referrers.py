"""Attaches documents to an image in a registry as OCI 1.1 referrers, and finds them.

A registry without the referrers API (docker-registry 2.8, older ones of vendors) gets the index under the tag
`sha256-DIGEST` that the distribution specification has for such: clients look there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dlc.core.atomic_files import report_disk_errors, scratch_folder
from dlc.core.errors import RegistryError
from dlc.registry.client.http import UnknownBlobError
from dlc.registry.client.repository import (
    INDEX,
    INDEXES,
    KINDS,
    Manifest,
    Repository,
    describe_blob,
    make_digest,
    make_fallback_tag,
)

SPDX = "application/spdx+json"
# What sigstore's bundles say of themselves in a list of referrers.
PREDICATE_TYPE = "dev.sigstore.bundle.predicateType"
EMPTY = b"{}"
EMPTY_KIND = "application/vnd.oci.empty.v1+json"
# Tags of documents: the list of an image's referrers, and cosign's signatures and attestations.
OF_DOCUMENT = re.compile(r"sha256-([0-9a-f]{64})(\.[a-z]+)?")
# How the media types of an image's layers begin.
LAYERS = ("application/vnd.oci.image.layer.", "application/vnd.docker.image.")
# Times that a document is added to an index before another client is said to drop it.
LISTINGS = 5
Annotations = Mapping[str, str]
NONE: Annotations = MappingProxyType({})


@dataclass(frozen=True)
class Document:
    """A document about an image, and the image's digest. `kind`: its type of predicate, else its media type."""

    digest: str
    kind: str
    image: str
    # The registry had it already.
    was_there: bool


def attach_bill(repository: Repository, subject: Manifest, document: Callable[[], bytes]) -> str:
    """Attach the document unless one of its kind is there; return its manifest's digest. Raises RegistryError.

    `document` is called only if it is needed.
    """
    there = [found for found in repository.referrers(subject.digest) if found.get("artifactType") == SPDX]
    return str(there[0]["digest"]) if there else attach_document(repository, subject, SPDX, document())


def attach_document(
    repository: Repository, subject: Manifest, kind: str, data: bytes, annotations: Annotations = NONE
) -> str:
    """Attach a document of this media type; return its manifest's digest. An equal one is attached once."""
    manifest = make_referrer(subject, kind, data, annotations)
    for content in (EMPTY, data):
        put_blob(repository, content)
    if not repository.put_manifest(manifest.digest, manifest):
        list_referrer(repository, subject, describe_referrer(manifest))
    return manifest.digest


def put_blob(repository: Repository, content: bytes) -> None:
    """Send some bytes unless the repository has them."""
    if repository.size(make_digest(content)) == len(content):
        return
    with scratch_folder("dlc-blob-") as folder, report_disk_errors(folder, " in TMPDIR"):
        path = folder / "blob"
        path.write_bytes(content)
        repository.upload(path, make_digest(content))


def make_referrer(subject: Manifest, kind: str, document: bytes, annotations: Annotations = NONE) -> Manifest:
    """Make the manifest of a document about an image. Pure."""
    return Manifest.of({
        "schemaVersion": 2,
        "mediaType": KINDS[0],
        "artifactType": kind,
        "config": describe_blob(EMPTY_KIND, EMPTY),
        "layers": [describe_blob(kind, document)],
        "subject": describe_blob(subject.kind, subject.data),
        **({"annotations": dict(annotations)} if annotations else {}),
    })  # fmt: skip


def list_referrer(repository: Repository, subject: Manifest, descriptor: Mapping[str, Any]) -> None:
    """Add a document to the index under the fallback tag, beside what others have put there.

    A registry that lists it already, by itself or in the index, is left as it is. Another client that writes the same
    index at the same time may drop what was added: it is read again until it is there.

    Raises RegistryError if the document is not listed in the end.
    """
    # An entry that says another kind hides the document from those who look for its kind.
    names = ("digest", "artifactType")
    for _ in range(LISTINGS):
        there = repository.referrers(subject.digest)
        if any(all(found.get(name) == descriptor.get(name) for name in names) for found in there):
            return
        others = [found for found in there if found.get("digest") != descriptor["digest"]]
        try:
            _put_list(repository, subject, [*others, descriptor])
        except UnknownBlobError:
            # Some of it is gone, as after a `dlc prune` that was cut off, and the registry takes no list of that.
            left = [found for found in others if repository.any_manifest(str(found["digest"]))]
            _put_list(repository, subject, [*left, descriptor])
    raise drop_error(repository, subject, str(descriptor["digest"]))


def _put_list(repository: Repository, subject: Manifest, listed: Sequence[Mapping[str, Any]]) -> None:
    content = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    repository.put_manifest(make_fallback_tag(subject.digest), Manifest.of(content))


def drop_error(repository: Repository, subject: Manifest, name: str) -> RegistryError:
    """Return the error for what was attached, and is dropped by others again and again."""
    return RegistryError(
        f"{repository.name}@{subject.digest}: expected {name} to stay attached, found it dropped {LISTINGS} times",
        "another client writes there at the same time: let it end, and run again",
    )


def describe_referrer(manifest: Manifest) -> Mapping[str, Any]:
    """Return the descriptor of a document's manifest in an index. Pure."""
    named = {name: manifest.content[name] for name in ("artifactType", "annotations") if name in manifest.content}
    return {**describe_blob(manifest.kind, manifest.data), **named}


def is_document(manifest: Manifest) -> bool:
    """Tell whether the manifest under the tag of a document is one, or a list of documents. Pure.

    Such a tag may have been given to an image, too: what could be one counts as an image.
    """
    if manifest.kind in INDEXES:
        return all(entry.get("artifactType") for entry in manifest.content["manifests"])
    layers = [str(layer["mediaType"]) for layer in manifest.content["layers"]]
    return bool(layers) and not any(layer.startswith(LAYERS) for layer in layers)


def is_about(document: Manifest, digest: str) -> bool:
    """Tell whether a manifest says itself that it is a document about this digest. Pure."""
    subject = document.content.get("subject")
    return isinstance(subject, dict) and subject.get("digest") == digest


def read_kind(manifest: Manifest) -> str:
    """Return the type of predicate of a document's manifest, else its media type. Pure."""
    annotations = manifest.content.get("annotations")
    said = annotations.get(PREDICATE_TYPE) if isinstance(annotations, dict) else None
    return str(said or manifest.content.get("artifactType") or manifest.kind)
