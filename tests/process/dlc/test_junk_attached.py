"""Whoever may push attaches junk to an image that is signed: it passes dlc verify and dlc promote as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hand_made_image import client
from verify_shop import Shop, kind_of

from dlc import cli
from dlc.core.errors import ProofError
from dlc.proof.dsse import BUNDLE
from dlc.proof.statement import SCAN
from dlc.registry.client.http import UnreadableError
from dlc.registry.client.repository import INDEX, Manifest, Repository, describe_blob, make_digest, make_fallback_tag
from dlc.registry.referrers import SPDX, attach_document, describe_referrer, list_referrer
from dlc.registry.simple_signing import PAYLOAD, join_signatures, make_signature_tag
from harness.signed_image import SignedImage, push_plain, push_signed

# What must not be read, and in which words it is told.
Junk = Callable[[Shop, Manifest], str]
HUGE = 17 << 20
# A registry takes twice as many levels.
DEEP = b"[" * 5000 + b"]" * 5000


def drop_blob(shop: Shop, data: bytes) -> str:
    """Remove a blob as its owner may, and the list of documents stays."""
    digest = make_digest(data)
    shop.repository._session.send("DELETE", f"/v2/{shop.repository.name}/blobs/{digest}", accept=(202,))
    return digest


def huge_bundle(shop: Shop, image: Manifest) -> str:
    data = b"x" * HUGE
    attach_document(shop.repository, image, BUNDLE, data)
    return f"{make_digest(data)}; it cannot be read: it has 17 MiB"


def bundle_without_blob(shop: Shop, image: Manifest) -> str:
    attach_document(shop.repository, image, BUNDLE, b"gone")
    return f"{drop_blob(shop, b'gone')}; it cannot be read: it is not there"


def bundle_of_other_bytes(shop: Shop, image: Manifest) -> str:
    attach_document(shop.repository, image, BUNDLE, b"these")
    shop.registry.blob(make_digest(b"these")).write_bytes(b"those")
    return f"{make_digest(b'these')}; it cannot be read: it has the digest {make_digest(b'those')}"


def bundle_that_is_gone(shop: Shop, image: Manifest) -> str:
    digest = attach_document(shop.repository, image, BUNDLE, b"all of it")
    shop.repository.delete(digest)
    return f"{digest}; it cannot be read: it is not there"


def bill_without_blob(shop: Shop, image: Manifest) -> str:
    attach_document(shop.repository, image, SPDX, b"a bill that nobody can read")
    return f"{drop_blob(shop, b'a bill that nobody can read')}; it cannot be read: it is not there"


def signature_without_blob(shop: Shop, image: Manifest) -> str:
    """Beside the true signature under cosign's tag."""
    there = shop.repository.manifest(make_signature_tag(image.digest))
    assert there is not None
    layer = {
        "mediaType": PAYLOAD, "digest": make_digest(b"payload"), "size": 7,
        "annotations": {"dev.cosignproject.cosign/signature": "AAAA"},
    }  # fmt: skip
    joined = join_signatures(there, [layer])
    assert joined is not None
    for content in (b"payload", joined[1]):
        path = shop.folder / "blob"
        path.write_bytes(content)
        shop.repository.upload(path, make_digest(content))
    shop.repository.put_manifest(make_signature_tag(image.digest), joined[0])
    return f"{drop_blob(shop, b'payload')}; it cannot be read: it is not there"


def list_as_bundle(shop: Shop, image: Manifest, odd: Manifest) -> str:
    """Push a manifest and list it as a statement about the image."""
    shop.repository.put_manifest(odd.digest, odd)
    list_referrer(shop.repository, image, {**describe_blob(odd.kind, odd.data), "artifactType": BUNDLE})
    return f"{odd.digest}; it cannot be read: GET "


def index_of_no_kinds(shop: Shop, image: Manifest) -> str:
    """Its entry says no media type: a registry takes it, and dlc reads no such index."""
    entry = {"digest": image.digest, "size": len(image.data)}
    return list_as_bundle(shop, image, Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}))


def deep_manifest(shop: Shop, image: Manifest) -> str:
    """It has more levels than Python reads, in a field that nobody knows."""
    return list_as_bundle(shop, image, Manifest(image.data[:-1] + b',"x":' + DEEP + b"}", image.kind))


def reads_deep() -> bool:
    with suppress(RecursionError):
        return bool(json.loads(DEEP))
    return False


def layer_as_bundle(shop: Shop, image: Manifest) -> str:
    """The registry fails if it is asked for such a manifest."""
    layer = image.content["layers"][0]
    list_referrer(shop.repository, image, {**layer, "mediaType": image.kind, "artifactType": BUNDLE})
    return f"{layer['digest']}; it cannot be read: GET "


JUNK = (
    huge_bundle, bundle_without_blob, bundle_of_other_bytes, bundle_that_is_gone, bill_without_blob,
    signature_without_blob, index_of_no_kinds, layer_as_bundle,
    pytest.param(
        deep_manifest, marks=pytest.mark.skipif(reads_deep(), reason="this Python reads as deep as a registry")
    ),
)  # fmt: skip


def test_an_image_with_nothing_but_junk_is_refused_and_told_why(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.keep(image, lambda found: kind_of(found) != SCAN)
    bundle_without_blob(shop, image)
    with pytest.raises(ProofError, match=f"scan-unreadable: expected .* found {make_digest(b'gone')}: it is not there"):
        shop.verify()


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: junk.__name__)
def test_junk_hides_no_true_statement_holds_no_promotion_up_and_goes_nowhere(
    junk: Junk, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    said = junk(shop, image)
    assert shop.verify() == 0
    assert f"not compared: what is attached as {said}" in capsys.readouterr().out
    target = promote(shop, image, capsys)
    left = {found["digest"] for found in target.referrers(image.digest)}
    there = {found["digest"] for found in shop.index(image) if is_readable(shop, found["digest"])}
    # Within one registry nobody reads the bytes of a blob.
    assert len(there - left) == (junk in (bundle_without_blob, bill_without_blob))
    signatures = target.manifest(make_signature_tag(image.digest))
    assert signatures
    assert len(signatures.content["layers"]) == 1
    assert all(target.size(layer["digest"]) == layer["size"] for layer in signatures.content["layers"])


def is_readable(shop: Shop, digest: str) -> bool:
    with suppress(UnreadableError):
        return shop.repository.any_manifest(digest) is not None
    return False


def promote(shop: Shop, image: Manifest, capsys: pytest.CaptureFixture[str]) -> Repository:
    """Promote by the key within the registry; give the repository where it is."""
    team, _, framework = shop.repository.name.rpartition("/")
    words = ["--from", f"{shop.registry.host}/{team}", "--to", f"{shop.registry.host}/{team}-prod"]
    key = str(shop.folder / "cosign.pub")
    assert cli.run(["promote", f"{framework}@{image.digest}", *words, "--key", key]) == 0, capsys.readouterr().err
    return client(shop.registry, f"{team}-prod/{framework}")


def test_what_says_to_be_about_another_image_is_not_promoted(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of documents may name anything: an image without a proof came into production by it."""
    image = push_signed(shop.repository, shop.key, SignedImage())
    stranger = push_plain(shop.repository, SignedImage().labels, b"another layer", ("stranger",))
    entry = {**describe_referrer(stranger), "artifactType": BUNDLE}
    list_referrer(shop.repository, image, entry)
    listed = shop.repository.any_manifest(make_fallback_tag(image.digest))
    assert listed
    assert stranger.digest in listed.data.decode()
    target = promote(shop, image, capsys)
    assert f"{stranger.digest} is listed as attached and is not about the image: left out" in capsys.readouterr().err
    assert target.any_manifest(stranger.digest) is None
    assert stranger.digest not in {found["digest"] for found in target.referrers(image.digest)}


def test_an_image_under_the_tag_of_signatures_is_not_promoted(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    stranger = push_plain(shop.repository, SignedImage().labels, b"another layer", ("stranger",))
    for suffix in (".sig", ".att"):
        shop.repository.put_manifest(f"{make_fallback_tag(image.digest)}{suffix}", stranger)
    target = promote(shop, image, capsys)
    assert target.any_manifest(stranger.digest) is None
    assert not [tag for tag in target.tags() if tag.endswith((".sig", ".att"))]
