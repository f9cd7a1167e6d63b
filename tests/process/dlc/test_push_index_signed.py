"""`dlc push --sign` of an image for two platforms: the index over both is signed, and over nothing that is not."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hand_made_image import allow_by_labels, put_labelled
from image_client import write_client

from dlc import cli
from dlc.cli import push
from dlc.core import labels
from dlc.core.checkout import Tree
from dlc.core.errors import ProofError
from dlc.engine.docker_client import Engine
from dlc.plan.plan import make_plan
from dlc.proof.keys import PrivateKey
from dlc.proof.signing import KeySigner, attach_proof
from dlc.proof.statement import PROVENANCE
from dlc.proof.tested import make_record, write_record
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import INDEX, Manifest, Repository
from dlc.registry.promote import promote_image
from harness.registry import PASSWORD, USER, Registry
from harness.signed_image import make_key
from harness.specimen import TENSORFLOW_ID, changed, locked, unlocked, write_tree

AMD, ARM = "linux/amd64", "linux/arm64"
IDS = {AMD: TENSORFLOW_ID, ARM: f"{TENSORFLOW_ID}-arm64"}
STEM = "2.21.0-training-cpu-py311-bookworm"
BOTH = """\
framework: tensorflow
version: "2.21"
job: training
variants:
  - platforms: [linux/amd64, linux/arm64]
    packages: {framework: [tensorflow-cpu==2.21.0]}
"""
POLICY = "signers: [{key: cosign.pub}]\nrequire: [signature, provenance, bill]\n"


@dataclass(frozen=True)
class Work:
    """A checkout as the current folder, and a repository that is pushed to."""

    folder: Path
    tree: Tree
    registry: Registry
    repository: Repository
    key: PrivateKey

    @property
    def place(self) -> str:
        return f"{self.registry.host}/{self.repository.name}"

    def push(self, platform: str, *words: str) -> None:
        """Push the image of a platform, which was tested here."""
        image = write_client(self.folder / "client", self.tree, IDS[platform])
        write_record(self.folder / "cache", make_record(image, ["test_starts"], [], datetime.now(UTC)))
        to = self.place.removesuffix("/tensorflow")
        command = ["push", "tensorflow-2.21-*", "--platform", platform, "--no-scan", "--to", to]
        assert cli.run([*command, *words]) == 0

    def verify(self, name: str = f":{STEM}", *words: str) -> int:
        return cli.run(["verify", f"{self.place}{name}", "--policy", "policy.yml", *words])

    def refused(self, name: str = f":{STEM}") -> str:
        """The reasons why a reference is refused."""
        with pytest.raises(ProofError) as caught:
            self.verify(name)
        return caught.value.message

    def read(self, tag: str = STEM) -> Manifest:
        found = self.repository.any_manifest(tag)
        assert found is not None
        return found


@pytest.fixture
def work(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Work:
    tree = changed(unlocked(), "buildspec/tensorflow/2.21-training.yml", BOTH)
    tree = locked(changed(tree, "docker/debian/bookworm-arm64/versions.txt", "libc6=2.36-9\n"))
    write_tree(tree, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(push, "connect", lambda: Engine(None, "context", "26.1", containerd_store=False))
    monkeypatch.setenv("PATH", f"{tmp_path / 'client'}:/usr/bin:/bin")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    for name, value in registry.login(tmp_path / "docker-login").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "policy.yml").write_text(POLICY)
    path = f"{''.join(each for each in request.node.name if each.isalnum())[-40:].lower()}/tensorflow"
    session = Session(f"http://{registry.host}", path, Credentials(USER, PASSWORD))
    return Work(tmp_path, tree, registry, Repository(session, path), make_key(tmp_path))


def entry(image: Manifest, platform: str) -> dict[str, Any]:
    system, _, architecture = platform.partition("/")
    known = {"os": system, "architecture": architecture}
    return {"mediaType": image.kind, "digest": image.digest, "size": len(image.data), "platform": known}


def put_index(work: Work, *entries: dict[str, Any]) -> Manifest:
    """Put another index under the tag."""
    index = Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)})
    work.repository.put_manifest(STEM, index)
    return index


def test_the_index_of_a_signed_push_is_signed_and_verified_with_each_of_its_images(
    work: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    work.push(ARM, "--sign", "cosign.key")
    assert "of the index" not in capsys.readouterr().out
    work.push(AMD, "--sign", "cosign.key")
    index = work.read()
    out = capsys.readouterr().out
    for kind in ("provenance", "signature"):
        assert any(kind in line and f"of the index {index.digest}" in line for line in out.splitlines())
    assert work.verify() == 0
    out = capsys.readouterr().out
    digests = {each["platform"]["architecture"]: each["digest"] for each in index.content["manifests"]}
    assert f"{work.place}@{index.digest}\n  image       {TENSORFLOW_ID}\n  signature   key" in out
    assert f"  index       of {AMD} {digests['amd64']}, {ARM} {digests['arm64']}\n" in out
    for platform in (AMD, ARM):
        named = f"{work.place}@{digests[platform[6:]]}\n  image       {IDS[platform]}, {platform}, "
        assert named in out
    assert work.verify(f":{STEM}", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == [TENSORFLOW_ID, *IDS.values()]
    assert rows[0]["image"]["names"] == [f"tensorflow:{STEM}-20261127", f"tensorflow:{STEM}"]
    assert work.verify(f"@{index.digest}") == 0
    assert "not compared: the name" in capsys.readouterr().out


def test_an_index_that_nobody_signed_is_refused_although_its_images_are(work: Work) -> None:
    """As whoever may push can make one of signed images, an old one of them for instance."""
    for platform in (ARM, AMD):
        work.push(platform, "--sign", "cosign.key")
    put_index(work, *reversed(work.read().content["manifests"]))
    said = work.refused()
    assert "signature-missing: expected a signature of this image, found none" in said
    assert "provenance-missing" in said


def test_a_signed_index_with_an_unsigned_or_foreign_image_is_refused(work: Work) -> None:
    for platform in (ARM, AMD):
        work.push(platform, "--sign", "cosign.key")
    index = work.read()
    [amd, arm] = index.content["manifests"]
    target = make_plan(work.tree, [IDS[ARM]]).target(IDS[ARM])
    said = {**target.labels, labels.CREATED: "2026-11-27T00:00:00+00:00"}
    stranger = put_labelled(work.repository, work.folder, said, 1)
    [proof] = [
        json.loads(work.repository.blob(work.read(each["digest"]).content["layers"][0]["digest"]) or b"")
        for each in work.repository.referrers(index.digest)
        if each["annotations"]["dev.sigstore.bundle.predicateType"] == PROVENANCE
    ]
    predicate = json.loads(base64.b64decode(proof["dsseEnvelope"]["payload"]))["predicate"]
    for entries, fault in (
        ((amd, entry(stranger, ARM)), f"@{stranger.digest}: refused\n  signature-missing"),
        ((amd, {**amd, "platform": arm["platform"]}), f"index-of-other-images: expected the image of {TENSORFLOW_ID}"),
        (({**amd, "platform": arm["platform"]}, amd), f"index-of-other-images: expected the image of {TENSORFLOW_ID}"),
        ((arm, {**arm, "platform": amd["platform"]}), f"index-of-other-images: expected the image of {TENSORFLOW_ID}"),
    ):
        other = put_index(work, *entries)
        attach_proof(work.repository, other, "team", KeySigner(work.key), {PROVENANCE: predicate})
        assert fault in work.refused()
    # The index that was signed is still what it was, under its own tags only.
    work.repository.put_manifest(STEM, index)
    assert work.verify() == 0
    work.repository.put_manifest("latest", index)
    assert "name-of-another-image: expected tensorflow:" in work.refused(":latest")


def test_one_of_the_images_alone_is_refused_under_the_tag_of_the_index_unless_it_names_it(work: Work) -> None:
    for platform in (ARM, AMD):
        work.push(platform, "--sign", "cosign.key")
    [amd, arm] = work.read().content["manifests"]
    work.repository.put_manifest(STEM, work.read(arm["digest"]))
    assert f"found tensorflow:{STEM}" in work.refused()
    # Until the other platform's image is there, the tag means that of the first: a push gives it this name.
    work.repository.put_manifest(STEM, work.read(amd["digest"]))
    assert work.verify() == 0


def test_no_index_is_signed_over_an_image_that_is_not(work: Work) -> None:
    """Whoever may push can put any image under the content tag of the other platform, and its labels say anything."""
    work.push(ARM)
    [before] = [tag for tag in work.repository.tags() if tag.endswith("arm64-bookworm")]
    with pytest.raises(ProofError, match=r"refused\n  signature-missing") as caught:
        work.push(AMD, "--sign", "cosign.key")
    assert "push the image of linux/arm64 with the same --sign" in caught.value.remedy
    assert [tag for tag in work.repository.tags() if tag.startswith(STEM)] == []
    assert work.repository.manifest(before) is not None
    make_key(work.folder, "other")
    work.push(ARM, "--sign", "other.key")
    with pytest.raises(ProofError, match="signature-of-another-key"):
        work.push(AMD, "--sign", "cosign.key")
    work.push(ARM, "--sign", "cosign.key")
    work.push(AMD, "--sign", "cosign.key")
    assert work.verify() == 0


def test_a_promoted_index_is_as_signed_as_it_was(work: Work) -> None:
    for platform in (ARM, AMD):
        work.push(platform, "--sign", "cosign.key")
    path = f"prod{work.repository.name}"
    target = Repository(Session(f"http://{work.registry.host}", path, Credentials(USER, PASSWORD)), path)
    promote_image(work.repository, target, STEM, allow_by_labels, lambda _: None)
    assert cli.run(["verify", f"{work.registry.host}/{path}:{STEM}", "--policy", "policy.yml"]) == 0
