"""`dlc verify` against a real registry: each way to tamper with a signed image is refused by its name."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from verify_shop import Shop, kind_of

import dlc
from dlc.buildspec.models import ScanException
from dlc.core.checkout import find_root
from dlc.core.errors import ProofError
from dlc.inspection.advisories import Verdict
from dlc.plan.targets import UV_LOCK
from dlc.proof.dsse import BUNDLE
from dlc.proof.signing import KeySigner, attach_proof
from dlc.proof.statement import BILL, PROVENANCE, SCAN
from dlc.registry.client.repository import KINDS, Manifest, make_digest
from dlc.registry.referrers import SPDX, attach_document
from dlc.registry.simple_signing import make_signature_tag
from harness.signed_image import CLEAN, DOCUMENT, FOUND, NOW, SignedImage, push_plain, push_signed
from harness.specimen import PYTORCH_PATH, changed, specimen

Tamper = Callable[[Shop], object]


def nothing_signed(shop: Shop) -> None:
    push_plain(shop.repository, SignedImage().labels)


def cut_signature(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.cut(image, "cosign/sign/v1")
    own = shop.repository.manifest(make_signature_tag(image.digest))
    assert own is not None
    cut = own.data.replace(b'signature":"ME', b'signature":"MF')
    assert cut != own.data
    shop.repository.put_manifest(make_signature_tag(image.digest), Manifest(cut, KINDS[0]))


def old_key(shop: Shop) -> None:
    push_signed(shop.repository, shop.other, SignedImage())


def signature_of_another_digest(shop: Shop) -> None:
    """Everything that belongs to one image is hung on another one."""
    image = push_signed(shop.repository, shop.key, SignedImage())
    stranger = push_plain(shop.repository, SignedImage().labels, b"another layer")
    for found in shop.index(image):
        attach_document(
            shop.repository, stranger, found["artifactType"], shop.document(found), found.get("annotations", {})
        )
    tag = shop.repository.manifest(make_signature_tag(image.digest))
    assert tag is not None
    shop.repository.put_manifest(make_signature_tag(stranger.digest), tag)


def without_provenance(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.keep(image, lambda found: kind_of(found) != PROVENANCE)


def cut_provenance(shop: Shop) -> None:
    shop.cut(push_signed(shop.repository, shop.key, SignedImage()), "provenance/v1")


def changed_provenance(shop: Shop) -> None:
    """Its words are changed and its signature is left as it was."""
    image = push_signed(shop.repository, shop.key, SignedImage())
    [found] = [found for found in shop.index(image) if kind_of(found) == PROVENANCE]
    bundle = json.loads(shop.document(found))
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"ci.example", b"me.example")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    shop.keep(image, lambda each: each["digest"] != found["digest"])
    attach_document(shop.repository, image, BUNDLE, json.dumps(bundle).encode(), found["annotations"])


def provenance_by_somebody_else(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.keep(image, lambda found: kind_of(found) != PROVENANCE)
    said = SignedImage().list_statements()
    attach_proof(shop.repository, image, "team", KeySigner(shop.other), {PROVENANCE: said[PROVENANCE]})


def replayed_provenance(shop: Shop) -> None:
    """The true provenance of another image of the same commit takes the place of this one's."""
    earlier = push_signed(shop.repository, shop.key, SignedImage(created=NOW - timedelta(days=2)))
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.keep(image, lambda found: kind_of(found) != PROVENANCE)
    [found] = [found for found in shop.index(earlier) if kind_of(found) == PROVENANCE]
    attach_document(shop.repository, image, BUNDLE, shop.document(found), found["annotations"])


def provenance_of_another_commit(shop: Shop) -> None:
    """The signer signs what is not so: the provenance is of other sources than the image's labels say."""
    said = {**SignedImage().list_statements(), PROVENANCE: SignedImage(revision="f" * 40).list_statements()[PROVENANCE]}
    push_signed(shop.repository, shop.key, SignedImage(), said)


def foreign_provenance(shop: Shop) -> None:
    said = {**SignedImage().list_statements(), PROVENANCE: {"buildDefinition": {"buildType": "https://make.example"}}}
    push_signed(shop.repository, shop.key, SignedImage(), said)


def changed_sources(shop: Shop) -> None:
    push_signed(shop.repository, shop.key, SignedImage(revision=f"{SignedImage().revision}-dirty"))


def another_checkout(shop: Shop) -> None:
    """The image is of another commit than the checkout in which it is verified."""
    tree = changed(specimen(), "src/entrypoint/launcher.py", "print('another launcher')\n")
    push_signed(shop.repository, shop.key, SignedImage(tree=tree))


def unknown_image(shop: Shop) -> None:
    push_signed(shop.repository, shop.key, SignedImage())
    (shop.folder / PYTORCH_PATH).unlink()


def swapped_bill(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.keep(image, lambda found: found["artifactType"] != SPDX)
    fewer = {**DOCUMENT, "packages": DOCUMENT["packages"][:1]}
    attach_document(shop.repository, image, SPDX, json.dumps(fewer).encode())


def unsigned_bill(shop: Shop) -> None:
    said = {kind: words for kind, words in SignedImage().list_statements().items() if kind != BILL}
    push_signed(shop.repository, shop.key, SignedImage(), said)


def plain_tag(shop: Shop) -> None:
    """An image of --set under the tag of the plain image."""
    image = push_signed(shop.repository, shop.key, SignedImage(sets=("env.LD_PRELOAD=/tmp/x.so",)))
    shop.repository.put_manifest(SignedImage().tags[-1], image)


def without_scan(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.keep(image, lambda found: kind_of(found) != SCAN)


def old_scan(shop: Shop) -> None:
    push_signed(shop.repository, shop.key, SignedImage(scanned=NOW - timedelta(days=40)))


def replayed_scan(shop: Shop) -> None:
    """The clean scan of last week hangs beside today's, which found something."""
    image = push_signed(shop.repository, shop.key, SignedImage(scanned=NOW - timedelta(days=7)))
    today = SignedImage(scan=replace(CLEAN, verdict=Verdict((FOUND,), (), (), ())))
    attach_proof(shop.repository, image, "team", KeySigner(shop.key), {SCAN: today.list_statements()[SCAN]})


def expired_exception(shop: Shop) -> None:
    yesterday = f"{NOW - timedelta(days=1):%F}"
    exception = ScanException(advisory="CVE-2026-1", reason="not reached", owner="ada", expires=yesterday)
    verdict = Verdict((), ((FOUND, exception),), (), ())
    push_signed(shop.repository, shop.key, SignedImage(scan=replace(CLEAN, verdict=verdict)))


def scan_of_tomorrow(shop: Shop) -> None:
    push_signed(shop.repository, shop.key, SignedImage(scanned=NOW + timedelta(days=1)))


def junk_bundle(shop: Shop) -> None:
    image = push_plain(shop.repository, SignedImage().labels)
    attach_document(shop.repository, image, BUNDLE, b"<html>")


def other_bytes(shop: Shop) -> None:
    """The registry's disk was changed: a configuration is not what its digest says."""
    # No other test has this configuration.
    image = push_signed(shop.repository, shop.key, SignedImage(revision="d" * 40))
    path = shop.registry.blob(image.content["config"]["digest"])
    path.write_bytes(path.read_bytes().replace(b"linux", b"Linux"))


def other_bytes_of_a_statement(shop: Shop) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    [found] = [found for found in shop.index(image) if kind_of(found) == SCAN]
    path = shop.registry.blob(make_digest(shop.document(found)))
    path.write_bytes(path.read_bytes().replace(b"dsse-envelope", b"dsse_envelope") + b" ")


CASES: dict[str, tuple[str, Tamper]] = {
    "nothing is signed": ("signature-missing", nothing_signed),
    "a cut signature": ("signature-invalid", cut_signature),
    "an old key": ("signature-of-another-key", old_key),
    "another digest": ("signature-of-another-image", signature_of_another_digest),
    "no provenance": ("provenance-missing", without_provenance),
    "a cut signature of the provenance": ("provenance-invalid", cut_provenance),
    "changed words of the provenance": ("provenance-invalid", changed_provenance),
    "a provenance by somebody else": ("provenance-of-another-key", provenance_by_somebody_else),
    "a replayed provenance": ("provenance-of-another-image", replayed_provenance),
    "a provenance of another commit": ("provenance-contradicts-image", provenance_of_another_commit),
    "a provenance by another tool": ("provenance-unreadable", foreign_provenance),
    "the plain image's tag": ("name-of-another-image", plain_tag),
    "sources that were changed": ("sources-changed", changed_sources),
    "an image of another commit": ("sources-differ", another_checkout),
    "an image that this checkout has not": ("sources-unknown", unknown_image),
    "a swapped bill of materials": ("bill-swapped", swapped_bill),
    "an unsigned bill of materials": ("bill-missing", unsigned_bill),
    "no scan": ("scan-missing", without_scan),
    "an old scan": ("scan-too-old", old_scan),
    "a replayed scan": ("scan-found", replayed_scan),
    "an expired exception": ("exception-expired", expired_exception),
    "a scan of tomorrow": ("scan-from-the-future", scan_of_tomorrow),
    "a bundle that is none": ("signature-unreadable", junk_bundle),
    "other bytes than the digest says": ("content-differs", other_bytes),
    "a statement of other bytes": ("scan-unreadable", other_bytes_of_a_statement),
}


@pytest.mark.parametrize(("name", "tamper"), CASES.values(), ids=CASES)
def test_what_was_tampered_with_is_refused_by_name(shop: Shop, name: str, tamper: Tamper) -> None:
    tamper(shop)
    with pytest.raises(ProofError) as caught:
        shop.verify()
    assert f"{name}: expected " in caught.value.message
    assert caught.value.exit_code == 33


def test_an_image_that_another_uv_made_is_refused_with_both_versions(shop: Shop) -> None:
    tree = changed(specimen(), UV_LOCK, "uv==0.13.9 \\\n    --hash=sha256:00\n")
    push_signed(shop.repository, shop.key, SignedImage(tree=tree))
    with pytest.raises(ProofError) as caught:
        shop.verify()
    assert "sources-differ: expected " in caught.value.message
    own = f"dlc {dlc.__version__} with uv"
    assert f"the image was made by {own} 0.13.9, and this is {own} VERSION" in caught.value.message


POLICIES: dict[str, tuple[str, str, SignedImage]] = {
    "an image that is too old": ("image-too-old", "image_days: 30", SignedImage(created=NOW - timedelta(days=31))),
    "an image of tomorrow": ("image-from-the-future", "scan_days: 1", SignedImage(created=NOW + timedelta(days=1))),
    "another builder": ("builder-not-allowed", "builders: ['https://ci.example/others/*']", SignedImage()),
    "tests that failed": ("tests-failed", "require: [tests]", SignedImage(failed=("test_trains",))),
    "no statement of exploitability": ("vex-missing", "require: [vex]", SignedImage()),
}


@pytest.mark.parametrize(("name", "policy", "given"), POLICIES.values(), ids=POLICIES)
def test_what_a_policy_does_not_allow_is_refused_by_name(
    shop: Shop, name: str, policy: str, given: SignedImage
) -> None:
    push_signed(shop.repository, shop.key, given)
    (shop.folder / "policy.yml").write_text(policy)
    with pytest.raises(ProofError) as caught:
        shop.verify("--policy", "policy.yml")
    assert f"{name}: expected " in caught.value.message


def test_the_page_names_every_refusal_that_is_tested() -> None:
    page = (find_root(Path(__file__)) / "docs/proof.md").read_text()
    table = page.partition("## Refusals")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z-]+)`", table))
    tested = {name for name, *_ in (*CASES.values(), *POLICIES.values())}
    # Of each reason why a statement does not open, the page shows one kind of statement.
    reasons = ("-missing", "-invalid", "-of-another-key", "-of-another-image", "-unreadable")
    elsewhere = {"image-without-date", "scan-incomplete", "tests-empty", "name-unknown", "index-of-other-images"}
    assert {name for name in named if not name.endswith(reasons)} - elsewhere == {
        name for name in tested if not name.endswith(reasons)
    }
    assert {reason for reason in reasons if any(name.endswith(reason) for name in tested & named)} == set(reasons)
