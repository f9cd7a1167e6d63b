"""A registry that serves JSON of other forms: dlc verify, promote and prune say so, and nothing else comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from email.message import Message
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dlc.core.errors import DlcError, ProofError, RegistryError
from dlc.proof.evidence import find_manifest, list_images
from dlc.proof.keys import PrivateKey
from dlc.proof.opening import KeyVerifier
from dlc.proof.policy import Policy
from dlc.proof.requirement import Judged, judge_images, list_signed_tags, require_proven
from dlc.registry import promote, prune, read_image, removal
from dlc.registry.client.http import Answer, Session
from dlc.registry.client.repository import INDEX, KINDS, Manifest, Repository, make_digest, make_fallback_tag
from dlc.registry.simple_signing import make_signature_tag
from harness.signed_image import SignedImage, push_signed

KEY = PrivateKey("cosign.key", ec.generate_private_key(ec.SECP256R1()))
POLICY = Policy(require=("signature", "provenance", "bill", "scan"), sources="any", image_days=9000, scan_days=0)
ODD = (None, 1, "x", [], {}, [None], {"a": None})
GONE = object()


@dataclass
class Store:
    """A registry in memory that believes what it is sent, and says it again under any name. One session of it."""

    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def send(
        self, method: str, path: str, *, body: bytes | Path | None = None, headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (200,),
    ) -> Answer:  # fmt: skip
        status, found, data = self._answer(method, path, body, headers or {})
        assert status in accept, (method, path, status)
        said = Message()
        for name, value in found.items():
            said[name] = value
        return Answer(status, said, data, f"{method} {path}")

    def _answer(
        self, method: str, path: str, body: bytes | Path | None, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        kind, _, name = path.partition("?")[0].removeprefix("/v2/team/pytorch/").partition("/")
        if kind == "tags":
            tags = [tag for tag in self.manifests if ":" not in tag]
            return 200, {"Content-Type": "application/json"}, json.dumps({"tags": tags}).encode()
        if method == "DELETE":
            self.manifests.pop(name, None)
            return 202, {}, b""
        if kind == "manifests" and method == "PUT":
            self.manifests[name] = (headers["Content-Type"], cast("bytes", body))
            return 201, {}, b""
        if kind == "manifests" and name in self.manifests:
            media, data = self.manifests[name]
            return 200, {"Content-Type": media}, data
        if method == "POST":
            return 202, {"Location": "/v2/team/pytorch/blobs/uploads/1"}, b""
        if method == "PUT":
            data = cast("Path", body).read_bytes()
            self.blobs[make_digest(data)] = data
            return 201, {}, b""
        if kind == "blobs" and name in self.blobs:
            return 200, {"Content-Length": str(len(self.blobs[name]))}, self.blobs[name]
        return 404, {}, b""

    def repository(self) -> Repository:
        return Repository(cast("Session", self), "team/pytorch", sleep=lambda _: None)

    def copy(self) -> Store:
        return Store(dict(self.manifests), dict(self.blobs))


@pytest.fixture(scope="module")
def store() -> Store:
    """An image with its proof, under the tag `latest`."""
    made = Store()
    push_signed(made.repository(), KEY, SignedImage())
    return made


def list_changes(value: Any) -> Iterator[Any]:
    """Yield the value with each of its parts replaced by each odd one, or gone."""
    yield from ODD
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(parts):
        for changed in (GONE, *list_changes(part)):
            copy = dict(value) if isinstance(value, dict) else list(value)
            if changed is GONE:
                del copy[key]
            else:
                copy[key] = changed
            yield copy


def judge_all(repository: Repository, image: Manifest) -> list[Judged]:
    return judge_images(
        repository, "r.example", image, "", [KeyVerifier(KEY.public)], POLICY, lambda origin: origin.key
    )  # fmt: skip


def verify(repository: Repository) -> None:
    judge_all(repository, find_manifest(repository, "r.example", "latest"))
    list_images(repository, "r.example", "latest")


def require_signed(source: Repository, image: Manifest, _reference: str) -> promote.Tags:
    judged = judge_all(source, image)
    require_proven(judged, "")
    return list_signed_tags(judged, source.name)


def promote_all(repository: Repository) -> None:
    promote.promote_image(repository, Store().repository(), "latest", require_signed, lambda _: None)


def prune_all(repository: Repository) -> None:
    listed = prune.list_repository(repository, lambda _: None)
    removal.remove(repository, prune.choose(listed, prune.Retention(0, 0), date(2100, 1, 1)), lambda _: None)


def try_all(store: Store) -> None:
    """Do everything; only errors that say what is wrong may come out."""
    for work in (verify, promote_all, prune_all):
        with suppress(DlcError):
            work(store.copy().repository())


def replace_manifest(store: Store, name: str, content: Any) -> Store:
    """The store with another manifest under this name, whatever digest the name is."""
    changed = store.copy()
    changed.manifests[name] = (store.manifests[name][0], json.dumps(content).encode())
    return changed


@pytest.mark.parametrize("what", ["the image", "the list of referrers", "a referrer", "cosign's signatures"])
def test_a_manifest_of_another_form_is_told(store: Store, what: str) -> None:
    digest = make_digest(store.manifests["latest"][1])
    listed = json.loads(store.manifests[make_fallback_tag(digest)][1])
    name = {
        "the image": "latest", "the list of referrers": make_fallback_tag(digest),
        "a referrer": listed["manifests"][0]["digest"], "cosign's signatures": make_signature_tag(digest),
    }[what]  # fmt: skip
    for content in list_changes(json.loads(store.manifests[name][1])):
        try_all(replace_manifest(store, name, content))


def test_a_configuration_of_another_form_is_told(store: Store) -> None:
    """Its digest is that of its bytes: whoever pushes such an image may do so."""
    image = json.loads(store.manifests["latest"][1])
    for config in list_changes(json.loads(store.blobs[image["config"]["digest"]])):
        data = json.dumps(config).encode()
        changed = store.copy()
        changed.blobs[make_digest(data)] = data
        content = {**image, "config": {**image["config"], "digest": make_digest(data), "size": len(data)}}
        try_all(replace_manifest(changed, "latest", content))


@pytest.mark.parametrize("manifests", [[], None, [{}], [{"digest": "sha256:1", "mediaType": KINDS[0], "size": 1}]])
def test_an_index_that_leads_nowhere_is_told(store: Store, manifests: Any) -> None:
    changed = store.copy()
    content = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    changed.manifests["latest"] = (INDEX, json.dumps(content).encode())
    for work in (verify, promote_all):
        with pytest.raises(DlcError):
            work(changed.repository())


def test_another_image_than_the_digest_says_is_not_promoted(store: Store) -> None:
    digest = make_digest(b"the image that is asked for")
    changed = store.copy()
    changed.manifests[digest] = store.manifests["latest"]
    target = Store()
    with pytest.raises(RegistryError, match=f"expected the manifest {digest}"):
        promote.promote_image(
            changed.repository(), target.repository(), digest, require_signed, lambda _: None
        )  # fmt: skip
    assert target.manifests == {}


def test_an_index_that_names_itself_ends(store: Store) -> None:
    """No index can hold its own digest, but a registry may serve one under each digest."""
    digest = make_digest(b"itself")
    content = {"schemaVersion": 2, "mediaType": INDEX,
               "manifests": [{"mediaType": INDEX, "digest": digest, "size": 1}]}  # fmt: skip
    changed = store.copy()
    for name in ("latest", digest):
        changed.manifests[name] = (INDEX, json.dumps(content).encode())
    with pytest.raises(ProofError, match="content-differs"):
        promote_all(changed.repository())
    found = Manifest(json.dumps(content).encode(), INDEX)
    with pytest.raises(RegistryError, match="expected the manifest"):
        read_image.read_labels(changed.repository(), found)
