"""Images for a registry that no engine built: small layers, labels as dlc gives them, and statements about them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from dlc.core import labels
from dlc.images.push.attached_results import SCAN, TESTS
from dlc.images.push.layers import CONFIG, LAYER, make_manifest
from dlc.images.push.promote import list_document
from dlc.images.push.push import make_tags
from dlc.images.push.registry.credentials import Credentials
from dlc.images.push.registry.http import Session
from dlc.images.push.registry.repository import KINDS, Manifest, Repository, make_digest
from harness.registry import PASSWORD, USER, Registry

ID = "pytorch-2.13-training-cpu-py311"
STEM = "2.13.0-training-cpu-py311-bookworm"
BUNDLE, IN_TOTO = "application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.in-toto+json"
NOON = "2026-11-28T12:00:00Z"


def client(registry: Registry, name: str) -> Repository:
    """A client of one repository, which does not wait before it asks again."""
    session = Session(f"http://{registry.host}", name, Credentials(USER, PASSWORD))
    return Repository(session, name, sleep=lambda _: None)


def put_blob(repository: Repository, data: bytes, folder: Path) -> dict[str, Any]:
    path = folder / "blob"
    path.write_bytes(data)
    repository.upload(path, make_digest(data))
    return {"digest": make_digest(data), "size": len(data)}


def put_image(
    repository: Repository, folder: Path, number: int, *, day: date = date(2026, 11, 28), suffix: str = "",
    tags: tuple[str, ...] | None = None, megabytes: int = 0,
) -> Manifest:  # fmt: skip
    """Push an image with a content key of its own, and its tags as a push sets them, or others."""
    said = {
        labels.ID: ID, labels.FRAMEWORK: "pytorch", labels.FRAMEWORK_VERSION: "2.13.0+cpu",
        labels.OS: "debian-bookworm", labels.KEY: hashlib.sha256(b"%d" % number).hexdigest(),
        labels.CREATED: f"{day}T00:00:00Z",
    }  # fmt: skip
    manifest = put_labelled(repository, folder, said, number, (megabytes << 20) + 64)
    for tag in make_tags(f"dlc/pytorch:1{suffix}", said) if tags is None else tags:
        repository.put_manifest(tag, manifest)
    return manifest


def put_labelled(
    repository: Repository, folder: Path, said: Mapping[str, str], number: int, size: int = 64
) -> Manifest:
    """Push an image with these labels and one layer, without a tag."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        item = tarfile.TarInfo("data")
        item.size = size
        files.addfile(item, io.BytesIO(random.Random(number).randbytes(size)))
    written = gzip.compress(layer.getvalue(), compresslevel=1, mtime=0)
    diff_ids = [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]
    config = json.dumps({"config": {"Labels": said}, "rootfs": {"type": "layers", "diff_ids": diff_ids}}).encode()
    layers = [{"mediaType": f"{LAYER}+gzip", **put_blob(repository, written, folder)}]
    manifest = make_manifest({"mediaType": CONFIG, **put_blob(repository, config, folder)}, layers)
    repository.put_manifest(manifest.digest, manifest)
    return manifest


def scan(*open_findings: str, state: str = "open", finished: str = NOON) -> dict[str, Any]:
    """The predicate of a scan."""
    rows = [{"id": name, "severity": [], "annotations": [{"package": "pip", "state": state}]} for name in open_findings]
    return {"scanner": {"uri": "urn:dlc:scan", "result": rows}, "metadata": {"scanFinishedOn": finished}}


def outcome(*failed: str) -> dict[str, Any]:
    """The predicate of tests."""
    configuration = [{"uri": "urn:dlc:test", "annotations": {"finishedOn": NOON}}]
    result = "FAILED" if failed else "PASSED"
    return {"result": result, "configuration": configuration, "passedTests": ["one"], "failedTests": list(failed)}


def attach(
    repository: Repository, image: Manifest, folder: Path, kind: str, predicate: Mapping[str, Any], subject: str = ""
) -> Manifest:
    """Attach a statement in a bundle, about the image or about another digest."""
    digest = (subject or image.digest).removeprefix("sha256:")
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "one", "digest": {"sha256": digest}}]}
    statement |= {"predicateType": kind, "predicate": predicate}
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    envelope = {"payload": payload, "payloadType": IN_TOTO, "signatures": [{"sig": ""}]}
    data = json.dumps({"mediaType": BUNDLE, "dsseEnvelope": envelope}).encode()
    about = {"mediaType": image.kind, "digest": image.digest, "size": len(image.data)}
    content = {
        "schemaVersion": 2, "mediaType": KINDS[0], "artifactType": BUNDLE, "subject": about,
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", **put_blob(repository, b"{}", folder)},
        "layers": [{"mediaType": BUNDLE, **put_blob(repository, data, folder)}],
    }  # fmt: skip
    manifest = Manifest(json.dumps(content).encode(), KINDS[0])
    repository.put_manifest(manifest.digest, manifest)
    described = {"mediaType": KINDS[0], "digest": manifest.digest, "size": len(manifest.data), "artifactType": BUNDLE}
    list_document(repository, image, described)
    return manifest


def prove(repository: Repository, image: Manifest, folder: Path) -> tuple[Manifest, Manifest]:
    """Attach a passing scan and passing tests."""
    first = attach(repository, image, folder, f"{SCAN}v0.2", scan())
    return first, attach(repository, image, folder, f"{TESTS}v0.1", outcome())
