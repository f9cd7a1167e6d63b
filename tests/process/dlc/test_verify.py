"""`dlc verify` against a real registry: what is signed passes, in every form that a registry has it."""

from __future__ import annotations

import json

import pytest
from memory_registry import Memory
from scripted_server import serving
from verify_shop import Shop

from dlc import cli
from dlc.core.errors import DlcError, RegistryError, UsageError
from dlc.proof.dsse import BUNDLE
from dlc.proof.signing import KeySigner, attach_proof
from dlc.proof.statement import PROVENANCE, TESTS
from dlc.registry.client.http import Session
from dlc.registry.client.repository import INDEX, KINDS, Manifest, Repository, make_digest, make_fallback_tag
from dlc.registry.referrers import attach_document
from dlc.registry.simple_signing import make_signature_tag
from harness.signed_image import SignedImage, push_signed


def test_a_signed_image_of_this_checkout_passes(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    assert shop.verify("--json") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["reference"].endswith(image.digest)
    assert found["passes"] is True
    assert set(found["proven"]) == {"signature", "provenance", "name", "sources", "bill", "scan", "scanned by"}
    assert found["not_compared"] == {}


@pytest.mark.parametrize("lists", [True, False], ids=["with the referrers API", "without"])
def test_a_registry_that_lists_referrers_itself_and_one_that_does_not(shop: Shop, lists: bool) -> None:
    with serving(Memory(lists=lists)) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        push_signed(repository, shop.key, SignedImage())
        assert cli.run(["verify", f"{server.host}/team/pytorch:{SignedImage().tags[-1]}", "--key", "cosign.pub"]) == 0


def test_a_policy_names_signers_and_what_is_asked(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    push_signed(shop.repository, shop.key, SignedImage())
    (shop.folder / "policy.yml").write_text(
        "signers: [{key: other.pub}, {key: cosign.pub}]\nrequire: [signature, tests]\nscan_days: 1\n"
        "builders: ['https://ci.example/*']\n"
    )
    assert cli.run(["verify", shop.reference, "--policy", "policy.yml"]) == 0
    assert "tests       1 passed" in capsys.readouterr().out


def test_what_others_attach_does_not_hide_what_is_right(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    attach_document(shop.repository, image, BUNDLE, b"<html>")
    attach_document(shop.repository, image, "application/signature", b"of another tool")
    attach_proof(shop.repository, image, "team", KeySigner(shop.other), {PROVENANCE: {}, TESTS: {}})
    assert shop.verify() == 0


def test_a_referrer_that_is_listed_and_not_there_does_not_either(shop: Shop) -> None:
    with serving(Memory(lists=False)) as server:
        repository = Repository(Session(server.url, "team/pytorch"), "team/pytorch")
        image = push_signed(repository, shop.key, SignedImage())
        lost = {"mediaType": KINDS[0], "digest": make_digest(b"lost"), "size": 4, "artifactType": BUNDLE}
        listed = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*repository.referrers(image.digest), lost]}
        repository.put_manifest(make_fallback_tag(image.digest), Manifest(json.dumps(listed).encode(), INDEX))
        assert cli.run(["verify", f"{server.host}/team/pytorch:{SignedImage().tags[-1]}", "--key", "cosign.pub"]) == 0


def test_signing_twice_by_the_same_key_leaves_one_signature(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    push_signed(shop.repository, shop.key, SignedImage())
    push_signed(shop.repository, shop.other, SignedImage())
    tag = shop.repository.manifest(make_signature_tag(image.digest))
    assert tag is not None
    assert len(tag.content["layers"]) == 2
    assert len(shop.index(image)) == 1 + 2 * 5


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["127.0.0.1:1/team/toy:latest"], UsageError, "expected who may sign"),
        (["team/toy:latest", "--key", "cosign.pub"], UsageError, "expected REGISTRY/REPO:TAG"),
        (["127.0.0.1:1/team/toy", "--key", "cosign.pub"], UsageError, "expected REGISTRY/REPO:TAG"),
        (["127.0.0.1:1/team/toy:latest", "--key", "none.pub"], UsageError, "expected a key, found: No such file"),
        (["127.0.0.1:1/team/toy:latest", "--key", "cosign.key"], UsageError, "expected a public key in PEM"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_message(
    shop: Shop, words: list[str], error: type[DlcError], said: str
) -> None:
    with pytest.raises(error, match=said):
        cli.run(["verify", *words])


def test_an_image_that_is_not_there_is_the_registrys_error(shop: Shop) -> None:
    with pytest.raises(RegistryError, match=f"expected an image {SignedImage().tags[-1]}, found none"):
        shop.verify()
