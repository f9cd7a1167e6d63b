"""What `dlc verify` is tested with: a repository of a real registry, keys, a checkout, and how to tamper with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlc import cli
from dlc.proof.dsse import BUNDLE
from dlc.proof.keys import PrivateKey
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import INDEX, Manifest, Repository, make_digest, make_fallback_tag
from dlc.registry.referrers import attach_document
from harness.registry import PASSWORD, USER, Registry
from harness.signed_image import SignedImage, make_key
from harness.specimen import specimen, write_tree


@dataclass(frozen=True)
class Shop:
    """A registry, a repository in it, the keys of this team and of others, and a checkout as the current folder."""

    registry: Registry
    repository: Repository
    key: PrivateKey
    other: PrivateKey
    folder: Path

    @property
    def reference(self) -> str:
        return self.name(SignedImage().tags[-1])

    def name(self, tag: str) -> str:
        """The reference of a tag."""
        return f"{self.registry.host}/{self.repository.name}:{tag}"

    def verify(self, *words: str, reference: str = "") -> int:
        return cli.run(["verify", reference or self.reference, "--key", str(self.folder / "cosign.pub"), *words])

    def index(self, image: Manifest) -> list[dict[str, Any]]:
        """What is attached to an image."""
        return [dict(found) for found in self.repository.referrers(image.digest)]

    def keep(self, image: Manifest, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Remove from an image what is not wanted."""
        left = [found for found in self.index(image) if wanted(found)]
        data = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": left}).encode()
        self.repository.put_manifest(make_fallback_tag(image.digest), Manifest(data, INDEX))

    def document(self, found: dict[str, Any]) -> bytes:
        """A document that is attached."""
        manifest = self.repository.manifest(found["digest"])
        assert manifest is not None
        data = self.repository.blob(manifest.content["layers"][0]["digest"])
        assert data is not None
        return data

    def cut(self, image: Manifest, name: str) -> None:
        """Change one byte of each signature in bundles whose predicate type ends so."""
        for found in [found for found in self.index(image) if kind_of(found).endswith(name)]:
            bundle = json.loads(self.document(found))
            [signature] = bundle["dsseEnvelope"]["signatures"]
            signature["sig"] = (
                signature["sig"][:20] + ("A" if signature["sig"][20] != "A" else "B") + signature["sig"][21:]
            )
            self.keep(image, lambda each, gone=found: each["digest"] != gone["digest"])
            attach_document(self.repository, image, BUNDLE, json.dumps(bundle).encode(), found["annotations"])


def kind_of(found: dict[str, Any]) -> str:
    return str(found.get("annotations", {}).get("dev.sigstore.bundle.predicateType", ""))


def open_shop(registry: Registry, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Write the specimen and keys into a folder, which becomes the current one; `name` is of the test."""
    write_tree(specimen(), folder)
    monkeypatch.chdir(folder)
    for variable, value in registry.login(folder / "docker-login").items():
        monkeypatch.setenv(variable, value)
    repository = f"team/{make_digest(name.encode())[7:19]}/pytorch"
    session = Session(f"http://{registry.host}", repository, Credentials(USER, PASSWORD))
    keys = [make_key(folder, each) for each in ("cosign", "other")]
    return Shop(registry, Repository(session, repository), keys[0], keys[1], folder)
