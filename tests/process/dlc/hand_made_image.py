"""Images for a registry that no engine built: small layers, labels as dlc gives them, and statements about them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from dlc.core import labels
from dlc.images.proof.dsse import BUNDLE, sign_statement
from dlc.images.proof.keys import PrivateKey
from dlc.images.proof.results import SCANNER, make_test_predicate
from dlc.images.proof.statement import SCAN, TESTS, make_statement
from dlc.images.proof.tested import make_record
from dlc.images.push.layers import LAYER
from dlc.images.push.referrers import attach_document
from dlc.images.push.registry.credentials import Credentials
from dlc.images.push.registry.http import Session
from dlc.images.push.registry.repository import CONFIG, Manifest, Repository, make_digest, make_manifest
from dlc.images.push.tags import make_tags
from harness.registry import PASSWORD, USER, Registry

ID = "pytorch-2.13-training-cpu-py311"
STEM = "2.13.0-training-cpu-py311-bookworm"
# Of somebody whom no test names.
KEY = PrivateKey("some.key", ec.generate_private_key(ec.SECP256R1()))


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
    tags: tuple[str, ...] | None = None, megabytes: int = 0, hour: int = 0, key: str = "",
) -> Manifest:  # fmt: skip
    """Push an image with a content key of its own, and its tags as a push sets them, or others."""
    said = {
        labels.ID: ID, labels.FRAMEWORK: "pytorch", labels.FRAMEWORK_VERSION: "2.13.0+cpu",
        labels.OS: "debian-bookworm", labels.KEY: key or hashlib.sha256(b"%d" % number).hexdigest(),
        labels.CREATED: f"{day}T{hour:02}:00:00Z",
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


def scan(*open_findings: str, state: str = "open", hours_ago: float = 1) -> dict[str, Any]:
    """The predicate of a scan."""
    finished = labels.format_time(datetime.now(UTC) - timedelta(hours=hours_ago))
    excuse = [{"exception": {"expires": str(date.today() + timedelta(days=9))}}] if state == "excepted" else []
    rows = [
        {"id": name, "severity": [], "annotations": [{"package": "pip", "state": state}, *excuse]}
        for name in open_findings
    ]
    return {"scanner": {"uri": SCANNER, "result": rows}, "metadata": {"scanFinishedOn": finished}}


def outcome(*failed: str) -> dict[str, Any]:
    """The predicate of tests."""
    return dict(make_test_predicate(make_record(f"sha256:{'1' * 64}", ["one"], failed, datetime.now(UTC))))


def attach(
    repository: Repository, image: Manifest, kind: str, predicate: Mapping[str, Any], subject: str = "",
    key: PrivateKey = KEY,
) -> str:  # fmt: skip
    """Attach a signed statement, about the image or about another digest; return the digest of its manifest."""
    statement = make_statement("one", subject or image.digest, kind, predicate)
    return attach_document(repository, image, BUNDLE, sign_statement(statement, key))


def prove(repository: Repository, image: Manifest, key: PrivateKey = KEY) -> list[str]:
    """Attach a passing scan and passing tests."""
    return [attach(repository, image, kind, said, key=key) for kind, said in ((SCAN, scan()), (TESTS, outcome()))]
