"""Images for a registry that no engine built: small layers, labels as dlc gives them, and statements about them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from dlc.core import labels
from dlc.core.environment import PLATFORM
from dlc.core.platforms import PLATFORMS
from dlc.proof.dsse import BUNDLE, sign_statement
from dlc.proof.index import make_index_provenance
from dlc.proof.judge import Subject
from dlc.proof.keys import PrivateKey
from dlc.proof.names import list_names
from dlc.proof.provenance import BUILD_TYPE, Builder
from dlc.proof.results import SCANNER, make_test_predicate
from dlc.proof.statement import PROVENANCE, SCAN, TESTS, make_statement
from dlc.proof.tested import make_record
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import CONFIG, INDEX, Manifest, Repository, make_digest, make_manifest
from dlc.registry.layers import LAYER
from dlc.registry.promote import Tags
from dlc.registry.read_image import read_labels
from dlc.registry.referrers import PREDICATE_TYPE, attach_document
from dlc.registry.tags import OF_SET, make_tags
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
    tags: tuple[str, ...] | None = None, megabytes: int = 0, platform: str = PLATFORM, hour: int = 0, key: str = "",
) -> Manifest:  # fmt: skip
    """Push an image with a content key of its own, and its tags as a push sets them, or others."""
    said = {
        labels.ID: f"{ID}{PLATFORMS[platform].suffix}", labels.PLATFORM: platform,
        labels.FRAMEWORK: "pytorch", labels.FRAMEWORK_VERSION: "2.13.0+cpu",
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
    return attach_document(repository, image, BUNDLE, sign_statement(statement, key), {PREDICATE_TYPE: kind})


def origin(repository: Repository, image: Manifest, suffix: str = "") -> dict[str, Any]:
    """The predicate of an image's provenance; `suffix` is that of --set, as its tags have it."""
    said = read_labels(repository, image)
    names = list_names(repository.name, make_tags(f"r{suffix}", said))
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"image": ID, "set": [], "revision": said.get(labels.REVISION, "")},
            "internalParameters": {
                "id": said[labels.ID], "contentKey": said[labels.KEY], "platform": said[labels.PLATFORM],
                "names": list(names),
            },
            "resolvedDependencies": [],
        },
        "runDetails": {"builder": {"id": "urn:dlc:builder:local"}},
    }  # fmt: skip


def prove(repository: Repository, image: Manifest, key: PrivateKey = KEY, suffix: str = "") -> list[str]:
    """Attach a provenance, a passing scan and passing tests."""
    said = {PROVENANCE: origin(repository, image, suffix), SCAN: scan(), TESTS: outcome()}
    return [attach(repository, image, kind, each, key=key) for kind, each in said.items()]


def put_index(
    repository: Repository, images: Sequence[Manifest], tags: Sequence[str] = (), platforms: Sequence[str] = ()
) -> Manifest:  # fmt: skip
    """Push an index over images, of the platforms that their labels say or of others, under these tags."""
    entries = []
    for number, image in enumerate(images):
        system, _, architecture = (
            platforms[number] if platforms else read_labels(repository, image)[labels.PLATFORM]
        ).partition("/")
        platform = {"os": system, "architecture": architecture}
        entries.append({"mediaType": image.kind, "digest": image.digest, "size": len(image.data), "platform": platform})
    index = Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
    for tag in (index.digest, *tags):
        repository.put_manifest(tag, index)
    return index


def prove_index(
    repository: Repository, index: Manifest, tags: Sequence[str], key: PrivateKey = KEY, identifier: str = ID
) -> str:  # fmt: skip
    """Attach the provenance of an index, as a push of several platforms does."""
    subject = Subject(identifier, list_names(repository.name, tags))
    said = make_index_provenance(subject, "registry.example/pytorch", {}, Builder("urn:dlc:builder:local"))
    return attach(repository, index, PROVENANCE, said, key=key)


def allow_by_labels(source: Repository, image: Manifest, reference: str) -> Tags:
    """The tags that a push gives to an image and to those in an index: a promotion that asks for no proof."""
    suffix = found[0] if (found := OF_SET.search(reference)) else ""
    members = [source.any_manifest(str(each["digest"])) for each in image.content.get("manifests", ())]
    tags = {each.digest: make_tags(f"r{suffix}", read_labels(source, each)) for each in (image, *filter(None, members))}
    return {**tags, image.digest: tags[image.digest][1 if members else 0 :]}
