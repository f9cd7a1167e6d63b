"""`dlc push --sign` to a real registry, from a client that has one image: signed once, found by dlc verify, or no tag.

The docker client is a script that answers from files; tests/integration/test_push.py has pushes of real images.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from hand_made_image import put_labelled
from image_client import write_client
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2  # type: ignore[import-untyped]
from in_toto_attestation.v1 import statement_pb2  # type: ignore[import-untyped]
from in_toto_attestation.v1.statement import Statement  # type: ignore[import-untyped]
from sigstore_models.bundle.v1 import Bundle

from dlc import cli
from dlc.cli import push
from dlc.core.errors import OlderImageError, ProofError, RegistryError, UsageError
from dlc.core.labels import CREATED, KEY
from dlc.engine.docker_client import Engine
from dlc.proof.dsse import BUNDLE
from dlc.proof.statement import PROVENANCE
from dlc.proof.tested import make_record, write_record
from dlc.registry.client.credentials import Credentials
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository, make_fallback_tag
from dlc.registry.referrers import SPDX, attach_document
from dlc.registry.simple_signing import make_signature_tag
from harness.oci_forms import CONFIG, MANIFEST, REFERRERS, find_faults
from harness.registry import PASSWORD, USER, Registry
from harness.signed_image import COMMIT, make_key
from harness.specimen import TORCH_ID, specimen, write_tree

POLICY = "signers: [{key: cosign.pub}]\nrequire: [signature, provenance, bill, tests]\n"


@dataclass(frozen=True)
class Work:
    """A checkout as the current folder, whose image the client has, and where it is pushed."""

    folder: Path
    registry: Registry
    image: str

    def push(self, path: str, *words: str) -> None:
        """Push the image without a scan: its row of JSON is on stdout."""
        to = f"{self.registry.host}/{path}"
        assert cli.run(["push", TORCH_ID, "--no-scan", "--to", to, "--json", *words]) == 0

    def repository(self, path: str) -> Repository:
        name = f"{path}/pytorch"
        return Repository(Session(f"http://{self.registry.host}", name, Credentials(USER, PASSWORD)), name)


@pytest.fixture
def work(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    write_tree(specimen(), tmp_path)
    image = write_client(tmp_path / "client", specimen(), TORCH_ID)
    make_key(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(push, "connect", lambda: Engine(None, "context", "26.1", containerd_store=False))
    monkeypatch.setenv("PATH", f"{tmp_path / 'client'}:/usr/bin:/bin")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    for name, value in registry.login(tmp_path / "docker-login").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "policy.yml").write_text(POLICY)
    return Work(tmp_path, registry, image)


def test_a_signed_push_passes_dlc_verify_with_the_tests_of_this_machine(
    work: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    write_record(work.folder / "cache", make_record(work.image, ["test_starts"], [], datetime.now(UTC)))
    work.push("whole", "--sign", "cosign.key")
    [row] = json.loads(capsys.readouterr().out)
    reference = f"{work.registry.host}/whole/pytorch"
    for name in (f"@{row['digest']}", *(f":{tag}" for tag in row["tags"])):
        assert cli.run(["verify", f"{reference}{name}", "--policy", "policy.yml"]) == 0
    said = capsys.readouterr().out
    assert f"commit {COMMIT[:12]}" in said
    assert "1 passed" in said
    assert "the sources here give the same content key" in said


def test_a_second_push_of_the_same_image_attaches_nothing_new(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    digests = []
    for _ in range(2):
        work.push("twice", "--sign", "cosign.key")
        [row] = json.loads(capsys.readouterr().out)
        digests.append([found["digest"] for found in work.repository("twice").referrers(row["digest"])])
    assert sorted(digests[0]) == sorted(digests[1])
    assert len(digests[0]) == 4


def read_json(repository: Repository, digest: str) -> Any:
    """A document of the registry, as JSON."""
    data = repository.blob(digest)
    assert data is not None
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == digest
    return json.loads(data)


def read_manifest(repository: Repository, reference: str) -> dict[str, Any]:
    found = repository.any_manifest(reference)
    assert found is not None
    return dict(found.content)


def test_all_that_a_signed_push_leaves_has_the_form_of_its_specification(
    work: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    """OCI's image specification, in-toto's statements, SLSA's provenance, sigstore's bundles: nothing else is there."""
    write_record(work.folder / "cache", make_record(work.image, ["test_starts"], [], datetime.now(UTC)))
    work.push("forms", "--sign", "cosign.key")
    [row] = json.loads(capsys.readouterr().out)
    repository, image = work.repository("forms"), read_manifest(work.repository("forms"), row["digest"])
    attached, signatures = make_fallback_tag(row["digest"]), make_signature_tag(row["digest"])
    assert set(repository.tags()) == {*row["tags"], attached, signatures}
    listed, signed = read_manifest(repository, attached), read_manifest(repository, signatures)
    assert find_faults(listed, REFERRERS) == []
    documents = [read_manifest(repository, each["digest"]) for each in listed["manifests"]]
    for manifest in (image, signed, *documents):
        assert find_faults(manifest, MANIFEST) == []
    for manifest in (image, signed):
        assert find_faults(read_json(repository, manifest["config"]["digest"]), CONFIG) == []
    kinds = []
    for entry, manifest in zip(listed["manifests"], documents, strict=True):
        assert manifest["subject"]["digest"] == row["digest"]
        assert entry["artifactType"] == manifest["artifactType"] == manifest["layers"][0]["mediaType"]
        content = read_json(repository, manifest["layers"][0]["digest"])
        if manifest["artifactType"] == BUNDLE:
            kinds.append(require_statement(content, row["digest"], [f"pytorch:{tag}" for tag in row["tags"]]))
            assert manifest["annotations"]["dev.sigstore.bundle.predicateType"] == kinds[-1]
        else:
            assert (manifest["artifactType"], content["spdxVersion"]) == (SPDX, "SPDX-2.3")
    assert len(kinds) == len(set(kinds)) == 4


def require_statement(bundle: dict[str, Any], digest: str, names: list[str]) -> str:
    """Fail unless a bundle holds a statement about the image of these names; return what it states."""
    Bundle.from_json(json.dumps(bundle))
    content = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    # By in-toto a predicate may be empty, as cosign's is; this package wants some word in it.
    judged = {**content, "predicate": content["predicate"] or {"any": "word"}}
    Statement.copy_from_pb(ParseDict(judged, statement_pb2.Statement())).validate()
    assert [f"sha256:{each['digest']['sha256']}" for each in content["subject"]] == [digest]
    if content["predicateType"] == PROVENANCE:
        ParseDict(content["predicate"], provenance_pb2.Provenance())
        assert content["predicate"]["buildDefinition"]["internalParameters"]["names"] == names
    return str(content["predicateType"])


def test_a_push_without_a_signature_is_refused_by_verify(work: Work) -> None:
    work.push("plain")
    tag = next(tag for tag in work.registry.tags("plain/pytorch"))
    with pytest.raises(ProofError, match="signature-missing"):
        cli.run(["verify", f"{work.registry.host}/plain/pytorch:{tag}", "--key", "cosign.pub"])


def test_no_tag_moves_while_another_bill_of_materials_is_attached(
    work: Work, capsys: pytest.CaptureFixture[str]
) -> None:
    work.push("swapped")
    [row] = json.loads(capsys.readouterr().out)
    repository = work.repository("swapped")
    image = repository.manifest(row["digest"])
    assert image is not None
    attach_document(repository, image, SPDX, b'{"spdxVersion": "SPDX-2.3", "packages": []}')
    for tag in row["tags"]:
        (work.registry.repository("swapped/pytorch") / "_manifests/tags" / tag / "current/link").unlink()
    with pytest.raises(RegistryError, match="found another one attached") as caught:
        work.push("swapped", "--sign", "cosign.key")
    assert "no tag was moved" in caught.value.remedy
    left = [tag for tag in row["tags"] if repository.manifest(tag)]
    assert left == []


def open_pipe(path: Path) -> str:
    """What bash makes of `<(cat FILE)`: it can be read once, and is no file."""
    reader, writer = os.pipe()
    os.write(writer, path.read_bytes())
    os.close(writer)
    return f"/dev/fd/{reader}"


def test_keys_come_through_pipes_as_in_ci_files(work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    work.push("pipe", "--sign", open_pipe(work.folder / "cosign.key"))
    [row] = json.loads(capsys.readouterr().out)
    words = ["promote", f"pytorch@{row['digest']}", "--from", f"{work.registry.host}/pipe"]
    with pytest.raises(ProofError) as raised:
        cli.run([*words, "--to", f"{work.registry.host}/prod", "--key", open_pipe(work.folder / "cosign.pub")])
    assert "scan-missing" in raised.value.message
    assert "another-key" not in raised.value.message, "both keys were read whole"


def test_a_push_leaves_the_tags_of_a_newer_commit_and_says_so(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = work.repository("older")
    newer = put_labelled(repository, tmp_path, {KEY: "0" * 64, CREATED: "2026-11-27T00:00:01Z"}, 1)
    stem = "2.13.0-training-cpu-py311-bookworm"
    repository.put_manifest(stem, newer)
    with pytest.raises(OlderImageError) as raised:
        work.push("older")
    assert f"older/pytorch:{stem}: expected an image of 2026-11-27T00:00:00Z or before" in raised.value.message
    [row] = json.loads(capsys.readouterr().out)
    assert [each["tag"] for each in row["newer"]] == [stem]
    assert stem not in row["tags"]
    for tag in row["tags"]:
        assert (found := repository.manifest(tag))
        assert found.digest == row["digest"]
    assert repository.manifest(stem) == newer
    work.push("older", "--back")
    assert (found := repository.manifest(stem))
    assert found.digest == row["digest"]


def test_a_wrong_key_ends_the_push_before_an_engine_is_asked(work: Work) -> None:
    (work.folder / "client/docker").unlink()
    with pytest.raises(UsageError, match="expected a private key in PEM"):
        work.push("wrong", "--sign", "cosign.pub")
    # As a variable that CI has not set: a push without a signature is not what was asked for.
    with pytest.raises(UsageError, match="expected a key"):
        work.push("wrong", "--sign", "")
    assert not work.registry.repository("wrong/pytorch").exists()
