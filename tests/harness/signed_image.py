"""A small image in a registry with all its proof, made from the specimen: what tests tamper with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from dlc.core.checkout import Tree
from dlc.core.labels import CREATED, FRAMEWORK, REVISION
from dlc.inspection.advisories import Answer, Finding, Verdict
from dlc.inspection.sbom import make_document
from dlc.inspection.scan import Scan
from dlc.plan.plan import make_plan
from dlc.plan.targets import Target
from dlc.proof.keys import PrivateKey
from dlc.proof.names import list_names
from dlc.proof.provenance import Builder, Sources, make_provenance
from dlc.proof.results import make_scan_predicate, make_test_predicate
from dlc.proof.signing import KeySigner, attach_proof
from dlc.proof.statement import BILL, PROVENANCE, SCAN, TESTS, Predicate
from dlc.proof.tested import make_record
from dlc.registry.client.repository import CONFIG, Manifest, Repository, make_digest, make_manifest
from dlc.registry.layers import LAYER
from dlc.registry.referrers import attach_bill, put_blob
from dlc.registry.tags import make_tags
from harness.image_facts import LAUNCHER, specimen_facts
from harness.specimen import TORCH_ID, specimen

NOW = datetime.now(UTC)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BUILDER = Builder("https://ci.example/team/dlc", "https://ci.example/team/dlc/runs/7")
DOCUMENT = make_document(specimen_facts("dlc/pytorch:2.13", LAUNCHER))
CLEAN = Scan("dlc/pytorch:2.13", (Answer("a source", (), 3, ()),), Verdict((), (), (), ()))
FOUND = Finding("six", "1.17.0", "PYSEC-2026-1", ("CVE-2026-1",), "1.18.0")


def make_key(folder: Path, name: str = "cosign") -> PrivateKey:
    """Make a pair of keys, NAME.key and NAME.pub."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.key").write_bytes(private)
    (folder / f"{name}.pub").write_bytes(public)
    return PrivateKey(str(folder / f"{name}.key"), key)


@dataclass(frozen=True)
class SignedImage:
    """What is pushed, as `--set` makes it of an image of the tree."""

    tree: Tree = field(default_factory=specimen)
    id: str = TORCH_ID
    sets: tuple[str, ...] = ()
    revision: str = COMMIT
    created: datetime = NOW - timedelta(days=1)
    scan: Scan = CLEAN
    scanned: datetime = NOW - timedelta(hours=1)
    failed: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """What a plan builds; --set may give it another identifier."""
        plan = make_plan(self.tree, [self.id], self.sets)
        return plan.target(plan.selected[0])

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the image."""
        return {**self.target.labels, REVISION: self.revision, CREATED: self.created.isoformat()}

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that a push gives it."""
        return make_tags(self.target.tags[0], self.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """The same with the repository, as a push signs them."""
        return list_names(self.labels[FRAMEWORK], self.tags)

    def list_statements(self) -> dict[str, Predicate]:
        """What is said of it, by type of predicate."""
        plan = make_plan(self.tree, [self.id], self.sets)
        sources = Sources(plan, self.tree, self.id, self.sets, "https://git.example/team/dlc", self.names)
        return {
            PROVENANCE: make_provenance(self.labels, sources, BUILDER, "26.1"),
            BILL: DOCUMENT,
            SCAN: make_scan_predicate(self.scan, self.scanned, self.scanned),
            TESTS: make_test_predicate(make_record(f"sha256:{'1' * 64}", ["test_starts"], self.failed, self.scanned)),
        }


def push_plain(
    repository: Repository, labels: Mapping[str, str], layer: bytes = b"a layer", tags: Sequence[str] = ()
) -> Manifest:
    """Push an image of one layer without any proof, under its tags or others, and under `latest`."""
    config: dict[str, Any] = {
        "created": labels[CREATED], "architecture": "amd64", "os": "linux", "config": {"Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [make_digest(layer)]},
    }  # fmt: skip
    data = json.dumps(config).encode()
    for content in (layer, data):
        put_blob(repository, content)
    described = {"mediaType": CONFIG, "digest": make_digest(data), "size": len(data)}
    image = make_manifest(described, [{"mediaType": f"{LAYER}+gzip", "digest": make_digest(layer), "size": len(layer)}])
    repository.put_manifest(image.digest, image)
    for tag in ("latest", *(tags or make_tags("", labels))):
        repository.put_manifest(tag, image)
    return image


def push_signed(
    repository: Repository, key: PrivateKey, given: SignedImage, statements: Mapping[str, Predicate] | None = None
) -> Manifest:
    """Push an image with its proof, or with these statements in place of its own."""
    image = push_plain(repository, given.labels, tags=given.tags)
    attach_bill(repository, image, lambda: json.dumps(DOCUMENT).encode())
    said = given.list_statements() if statements is None else statements
    attach_proof(repository, image, repository.name, KeySigner(key), said)
    return image
