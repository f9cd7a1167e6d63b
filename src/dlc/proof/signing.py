"""Attaches signed statements to a pushed image, as sigstore's bundles, and cosign's signature under its tag."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dlc.core.environment import hide_password
from dlc.core.errors import RegistryError
from dlc.core.process import run_program
from dlc.proof import keyless
from dlc.proof.dsse import BUNDLE, sign_statement
from dlc.proof.evidence import read_document
from dlc.proof.keys import PrivateKey, read_private_key
from dlc.proof.opening import KeyVerifier, Verifier
from dlc.proof.statement import SIGNATURE, Predicate, make_statement
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.referrers import LISTINGS, PREDICATE_TYPE, SPDX, Document, attach_document, drop_error, put_blob
from dlc.registry.simple_signing import (
    SignedPayload,
    describe_signed,
    join_signatures,
    make_payload,
    make_signature_manifest,
    make_signature_tag,
)

# https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md
CONTENT = "dev.sigstore.bundle.content"
ENVELOPE = "dsse-envelope"


class Signer(Protocol):
    """What signs: a key, or an identity for which there is no plain signature."""

    def sign_statement(self, payload: bytes) -> bytes:
        """Return the bundle of a statement."""

    def sign_payload(self, payload: bytes) -> bytes | None:
        """Return a plain signature, None if there is no key."""

    def make_verifier(self, bundle: bytes) -> Verifier:
        """Return who signed a bundle that this signer made."""


@dataclass(frozen=True)
class Attached:
    """What was attached to an image, and who signed it."""

    documents: tuple[Document, ...]
    signer: Verifier


@dataclass(frozen=True)
class KeySigner:
    """Signs by a key."""

    key: PrivateKey

    def sign_statement(self, payload: bytes) -> bytes:
        """Return the bundle of a statement."""
        return sign_statement(payload, self.key)

    def sign_payload(self, payload: bytes) -> bytes:
        """Return a plain signature."""
        return self.key.sign(payload)

    def make_verifier(self, _bundle: bytes) -> KeyVerifier:
        """Return who has this key."""
        return KeyVerifier(self.key.public)


def open_signer(word: str, environment: Mapping[str, str]) -> Signer:
    """Return what signs by the user's word: a file with a private key, or `keyless`.

    Raises UsageError for another file, and for `keyless` without an identity.
    """
    return keyless.open_signer() if word == keyless.WORD else KeySigner(read_private_key(Path(word), environment))


def read_address(root: Path) -> str:
    """Return the address of the repository that a checkout was cloned from, without a password; empty if unknown."""
    if not (root / ".git").exists() or not shutil.which("git"):
        return ""
    done = run_program(["git", "-C", str(root), "remote", "get-url", "origin"], check=False)
    return hide_password(done.stdout.strip())


def attach_proof(
    repository: Repository, image: Manifest, reference: str, signer: Signer, said: Mapping[str, Predicate]
) -> Attached:
    """Sign and attach what is said about an image, by type of predicate, then sign the image itself.

    `reference` is the image's name with its registry.
    """
    made = {
        kind: signer.sign_statement(make_statement(reference, image.digest, kind, predicate))
        for kind, predicate in {**said, SIGNATURE: {}}.items()
    }
    before = _list_attached(repository, image)
    attached = {kind: _attach_bundle(repository, image, kind, bundle) for kind, bundle in made.items()}
    # Another push of this image may have dropped some from the list that both write.
    listed = _list_attached(repository, image)
    for kind, bundle in made.items():
        if attached[kind] not in listed:
            _attach_bundle(repository, image, kind, bundle)
    payload = make_payload(reference, image.digest)
    if (signature := signer.sign_payload(payload)) is not None:
        _put_signature(repository, image, SignedPayload(payload, signature))
    documents = tuple(Document(digest, kind, image.digest, digest in before) for kind, digest in attached.items())
    return Attached(documents, signer.make_verifier(made[SIGNATURE]))


def _list_attached(repository: Repository, image: Manifest) -> set[str]:
    return {str(found["digest"]) for found in repository.referrers(image.digest)}


def _attach_bundle(repository: Repository, image: Manifest, kind: str, bundle: bytes) -> str:
    """Attach a signed statement of this type; return the digest of its manifest."""
    return attach_document(repository, image, BUNDLE, bundle, {CONTENT: ENVELOPE, PREDICATE_TYPE: kind})


def _put_signature(repository: Repository, image: Manifest, own: SignedPayload) -> None:
    """Put a signature under cosign's tag, beside those that are there."""
    layer, tag = describe_signed(own), make_signature_tag(image.digest)
    # Another one may put its own there at the same time, and drop ours.
    for _ in range(LISTINGS):
        there = repository.manifest(tag)
        joined = join_signatures(there, [layer]) if there else make_signature_manifest([layer])
        if joined is None:
            return
        manifest, config = joined
        for content in (own.payload, config):
            put_blob(repository, content)
        repository.put_manifest(tag, manifest)
    raise drop_error(repository, image, tag)


def require_bill(repository: Repository, image: Manifest, document: bytes) -> None:
    """Raise RegistryError if a bill of materials lies beside the image that is not the one to be signed."""
    for found in repository.referrers(image.digest):
        if found.get("artifactType") != SPDX:
            continue
        manifest = repository.manifest(str(found.get("digest")))
        layers = manifest.content["layers"] if manifest else ()
        try:
            there = [json.loads(read_document(repository, layer)) for layer in layers]
        except (ValueError, RecursionError):
            there = []
        if there != [json.loads(document)]:
            raise RegistryError(
                f"{repository.name}@{image.digest}: expected its bill of materials, found another one attached "
                f"({found.get('digest')})",
                "no tag was moved; remove that referrer from the registry, or push to another repository",
            )
