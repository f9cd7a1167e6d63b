"""Attaches a bill of materials to an image in a registry, as an OCI 1.1 referrer.

A registry without the referrers API (docker-registry 2.8, older ones of vendors) gets the index under the tag
`sha256-DIGEST` that the distribution specification has for such: clients look there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dlc.core.atomic_files import scratch_folder
from dlc.images.push.registry.repository import INDEX, KINDS, Manifest, Repository, digest_of, fallback_tag

SPDX = "application/spdx+json"
EMPTY = b"{}"
EMPTY_KIND = "application/vnd.oci.empty.v1+json"


def attach(repository: Repository, subject: Manifest, document: Callable[[], bytes]) -> str:
    """Attach the document unless one of its kind is there; its manifest's digest. Raises RegistryError.

    `document` is called only where it is needed.
    """
    there = [found for found in repository.referrers(subject.digest) if found.get("artifactType") == SPDX]
    if there:
        return str(there[0]["digest"])
    data = document()
    with scratch_folder("dlc-sbom-") as folder:
        for content in (EMPTY, data):
            path = folder / "blob"
            path.write_bytes(content)
            if repository.size(digest_of(content)) != len(content):
                repository.upload(path, digest_of(content))
    manifest = referrer(subject, data)
    if not repository.put_manifest(manifest.digest, manifest):
        _add_to_index(repository, subject, manifest)
    return manifest.digest


def referrer(subject: Manifest, document: bytes) -> Manifest:
    """The manifest of an SPDX document about an image. Pure."""
    content = {
        "schemaVersion": 2,
        "mediaType": KINDS[0],
        "artifactType": SPDX,
        "config": _descriptor(EMPTY_KIND, EMPTY),
        "layers": [_descriptor(SPDX, document)],
        "subject": _descriptor(subject.kind, subject.data),
    }
    return Manifest(json.dumps(content, separators=(",", ":")).encode(), KINDS[0])


def _add_to_index(repository: Repository, subject: Manifest, manifest: Manifest) -> None:
    """Add a referrer to the index under the fallback tag, beside what others have put there."""
    others = [found for found in repository.referrers(subject.digest) if found.get("digest") != manifest.digest]
    own = {**_descriptor(manifest.kind, manifest.data), "artifactType": SPDX}
    content = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, own]}
    data = json.dumps(content, separators=(",", ":")).encode()
    repository.put_manifest(fallback_tag(subject.digest), Manifest(data, INDEX))


def _descriptor(kind: str, data: bytes) -> Mapping[str, Any]:
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}
