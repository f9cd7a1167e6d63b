"""`dlc verify` against a real registry: an image is what its signed provenance says, under the names that it says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from verify_shop import Shop

from dlc.core.errors import ProofError
from dlc.proof.statement import PROVENANCE, Predicate
from harness.signed_image import COMMIT, SignedImage, push_signed
from harness.specimen import TENSORFLOW_ID, TORCH_ID

PRELOAD = "env.LD_PRELOAD=/tmp/x.so"
SET = SignedImage(sets=(PRELOAD,))


def refused(shop: Shop, reference: str = "") -> str:
    """The reasons why an image is refused under a reference."""
    with pytest.raises(ProofError) as caught:
        shop.verify(reference=reference)
    assert caught.value.exit_code == 33
    return caught.value.message


def without_names(given: SignedImage) -> dict[str, Predicate]:
    """The statements as dlc 1.0 wrote them."""
    said = given.list_statements()
    definition = said[PROVENANCE]["buildDefinition"]
    inner = {key: value for key, value in definition["internalParameters"].items() if key != "names"}
    return {**said, PROVENANCE: {**said[PROVENANCE], "buildDefinition": {**definition, "internalParameters": inner}}}


def test_the_output_says_which_image_it_is_by_what_is_signed(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    push_signed(shop.repository, shop.key, SET)
    reference = shop.name(SET.tags[-1])
    assert shop.verify(reference=reference) == 0
    key = SET.target.key
    image = f"  image       {TORCH_ID} --set {PRELOAD}, linux/amd64, commit {COMMIT[:12]}, content key {key[:12]}\n"
    assert image in capsys.readouterr().out
    assert shop.verify("--json", reference=reference) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["image"] == {
        "id": TORCH_ID, "sets": [PRELOAD], "platform": "linux/amd64", "revision": COMMIT, "key": key,
        "names": list(SET.names),
    }  # fmt: skip


def test_each_tag_of_a_push_is_a_name_and_a_digest_has_no_tag(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    tags = SignedImage().tags
    assert len(set(tags)) == 3
    for tag in tags:
        assert shop.verify(reference=shop.name(tag)) == 0
        out = capsys.readouterr().out
        assert f"  name        pytorch:{tag}\n" in out
        assert "not compared" not in out
    at_digest = f"{shop.name(tags[-1])}@{image.digest}"
    assert shop.verify(reference=at_digest) == 0
    assert f"  name        pytorch:{tags[-1]}\n" in capsys.readouterr().out
    assert shop.verify(reference=at_digest.replace(f":{tags[-1]}", "")) == 0
    assert "  not compared: the name; it was asked for by its digest, without a tag\n" in capsys.readouterr().out


def test_a_signed_image_of_set_is_refused_under_the_tags_of_the_plain_image(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    push_signed(shop.repository, shop.key, SignedImage())
    image = push_signed(shop.repository, shop.key, SET)
    for tag in SignedImage().tags:
        shop.repository.put_manifest(tag, image)
        assert f"name-of-another-image: expected {' or '.join(SET.names)}" in refused(shop, shop.name(tag))
    assert f"  image       {TORCH_ID} --set {PRELOAD}, linux/amd64" in capsys.readouterr().out
    assert "name-of-another-image" in refused(shop, f"{shop.reference}@{image.digest}")


@pytest.mark.parametrize(
    "tag",
    ["latest", SignedImage().tags[-1].replace("training", "Training"), f"{SignedImage().tags[-1]}-unverified",
     SignedImage(created=SignedImage().created.replace(year=2001)).tags[1]],
    ids=["a tag by hand", "another case", "what a builder has not verified", "another day"],
)  # fmt: skip
def test_a_tag_that_no_push_gave_it_is_refused(shop: Shop, tag: str) -> None:
    image = push_signed(shop.repository, shop.key, SignedImage())
    shop.repository.put_manifest(tag, image)
    assert f"found pytorch:{tag}" in refused(shop, shop.name(tag))


def test_an_image_of_another_framework_is_refused_under_the_tag_of_this_one(shop: Shop) -> None:
    """Also under its own tag in this repository: `pytorch:2.21.0-...` is no name of it."""
    given = SignedImage(id=TENSORFLOW_ID)
    image = push_signed(shop.repository, shop.key, given)
    shop.repository.put_manifest(SignedImage().tags[-1], image)
    for tag in (SignedImage().tags[-1], given.tags[-1]):
        assert f"found pytorch:{tag}" in refused(shop, shop.name(tag))


def test_a_provenance_of_1_0_names_the_plain_image_and_no_other(shop: Shop) -> None:
    push_signed(shop.repository, shop.key, SignedImage(), without_names(SignedImage()))
    assert shop.verify() == 0
    push_signed(shop.repository, shop.key, SET, without_names(SET))
    assert "name-unknown: expected a provenance that says" in refused(shop, shop.name(SET.tags[-1]))


def test_labels_of_another_image_than_the_provenance_says_are_refused(shop: Shop) -> None:
    """The signer signs what is not so: the labels name the plain image, the provenance another identifier."""
    other = SignedImage(id=TENSORFLOW_ID).list_statements()[PROVENANCE]
    push_signed(shop.repository, shop.key, SignedImage(), {**SignedImage().list_statements(), PROVENANCE: other})
    assert "provenance-contradicts-image: expected org.dlc.id" in refused(shop)


def test_a_policy_that_asks_for_no_provenance_takes_no_wrong_name_either(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop.folder / "policy.yml").write_text("require: [signature]\nsources: any\n")
    image = push_signed(shop.repository, shop.key, SET)
    shop.repository.put_manifest(SignedImage().tags[-1], image)
    with pytest.raises(ProofError, match="name-of-another-image"):
        shop.verify("--policy", "policy.yml")
    capsys.readouterr()
    push_signed(shop.repository, shop.key, replace(SignedImage(), revision="f" * 40), {})
    assert shop.verify("--policy", "policy.yml") == 0
    out = capsys.readouterr().out
    assert "  image       not known: no signed provenance was taken\n" in out
    assert "  not compared: the name; no signed provenance says it\n" in out
