"""proof.names and proof.index: which names an image and an index have, and which images an index may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dlc.core.errors import ImageError
from dlc.proof.dsse import sign_statement
from dlc.proof.index import Member, judge_index, make_index_provenance, read_index_origin
from dlc.proof.judge import NO_NAME, Subject, Verdict
from dlc.proof.keys import PrivateKey
from dlc.proof.names import find_names, list_name_faults, list_names, list_tags, make_name
from dlc.proof.opening import Evidence, KeyVerifier
from dlc.proof.policy import ALWAYS, Policy
from dlc.proof.provenance import BUILD_TYPE, Builder, Origin
from dlc.proof.statement import PROVENANCE, SIGNATURE, Predicate, make_statement
from dlc.registry.client.repository import INDEX, Manifest, Repository
from dlc.registry.promote import find_tags
from dlc.registry.read_image import list_platforms
from harness.signed_image import NOW, SignedImage

KEY = PrivateKey("cosign.key", ec.generate_private_key(ec.SECP256R1()))
OTHER = PrivateKey("other.key", ec.generate_private_key(ec.SECP256R1()))
DIGEST, FIRST, SECOND = (f"sha256:{digit * 64}" for digit in "567")
AMD, ARM = "linux/amd64", "linux/arm64"
FAMILY = "tensorflow-2.21-training-cpu-py311"
STEM = "2.21.0-training-cpu-py311-bookworm"
SUBJECT = Subject(FAMILY, (f"tensorflow:{STEM}",))
BUILDER = Builder("urn:dlc:builder:local")
PLAIN = Origin("a", (), "a", "k", AMD, "r", "b", dlc="", uv="", bases={})


def test_of_a_repository_only_its_last_part_is_in_a_name() -> None:
    assert make_name("mirror/of/team/pytorch", "1") == make_name("pytorch", "1") == "pytorch:1"
    names = (*list_names("team/pytorch", ["1", "2"]), "tensorflow:3")
    assert list_tags(names, "prod/pytorch") == ("1", "2")
    assert list_tags(names, "prod/torch") == ()


def test_names_are_those_of_the_provenance_or_follow_from_the_labels_of_a_plain_image() -> None:
    given = SignedImage()
    assert find_names(replace(PLAIN, names=("pytorch:1",)), given.labels) == ("pytorch:1",)
    assert find_names(PLAIN, given.labels) == given.names
    assert find_names(replace(PLAIN, sets=("env.A=b",)), given.labels) == ()
    assert find_names(PLAIN, {}) == ()


@pytest.mark.parametrize(
    ("asked", "names", "fault"),
    [
        ("", (), []),
        ("", ("pytorch:1",), []),
        ("pytorch:1", ("pytorch:1", "pytorch:2"), []),
        ("pytorch:1", (), ["name-unknown"]),
        ("pytorch:1", ("pytorch:12",), ["name-of-another-image"]),
        ("pytorch:A", ("pytorch:a",), ["name-of-another-image"]),
        ("torch:1", ("pytorch:1",), ["name-of-another-image"]),
    ],
)
def test_a_name_is_in_the_list_letter_by_letter(asked: str, names: tuple[str, ...], fault: list[str]) -> None:
    assert [each.name for each in list_name_faults(asked, names)] == fault


def member(platform: str, digest: str, *, identifier: str = "", says: str = "") -> Member:
    """A judged image; the index says `platform`, its provenance another one if it `says` so."""
    suffix = "-arm64" if platform == ARM else ""
    subject = Subject(identifier or f"{FAMILY}{suffix}", (), platform=says or platform)
    return Member(platform, Evidence("team", digest, "", {}), Verdict((), (), subject))


BOTH = [member(AMD, FIRST), member(ARM, SECOND)]
SAID = make_index_provenance(SUBJECT, "r.example/tensorflow", {AMD: FIRST, ARM: SECOND}, BUILDER)


def judged(
    members: list[Member], policy: Policy | None = None, name: str = f"tensorflow:{STEM}", *,
    key: PrivateKey = KEY, said: Predicate = SAID,
) -> Verdict:  # fmt: skip
    statements = {SIGNATURE: {}, PROVENANCE: said}
    bundles = tuple(
        sign_statement(make_statement("team", DIGEST, kind, each), key) for kind, each in statements.items()
    )
    evidence = Evidence("team", DIGEST, "", {}, bundles=bundles)
    return judge_index(evidence, [KeyVerifier(KEY.public)], policy or Policy(sources="any"), NOW, name, members)


def faults(verdict: Verdict) -> list[str]:
    return [refusal.name for refusal in verdict.refusals]


def test_an_index_says_its_images_and_its_names() -> None:
    found = judged(BOTH)
    assert found.refusals == ()
    assert found.subject == SUBJECT
    assert [name for name, _ in found.proven] == ["signature", "provenance", "name", "index"]
    assert dict(found.proven)["index"] == f"of {AMD} {FIRST}, {ARM} {SECOND}"
    origin = read_index_origin(SAID)
    assert (origin.id, origin.names, origin.builder) == (FAMILY, SUBJECT.names, BUILDER.id)
    materials = SAID["buildDefinition"]["resolvedDependencies"]
    assert [(each["name"], each["digest"]["sha256"][0]) for each in materials] == [(AMD, "6"), (ARM, "7")]


@pytest.mark.parametrize(
    ("members", "refused"),
    [
        ([member(AMD, FIRST), member(ARM, SECOND, identifier="pytorch-2.13-training-cpu-py311-arm64")], True),
        ([member(AMD, FIRST), member(ARM, FIRST, identifier=FAMILY, says=AMD)], True),
        ([member(AMD, FIRST), member("linux/arm64/v8", SECOND, says=ARM)], True),
        ([member(AMD, FIRST)], False),
    ],
    ids=["another image", "one image twice", "a variant", "fewer"],
)
def test_images_of_another_name_or_platform_are_refused(members: list[Member], refused: bool) -> None:
    assert faults(judged(members)) == ["index-of-other-images"] * refused


def test_an_index_by_somebody_else_or_under_another_name_is_refused() -> None:
    assert faults(judged(BOTH, key=OTHER)) == ["signature-of-another-key", "provenance-of-another-key"]
    assert faults(judged(BOTH, name="tensorflow:latest")) == ["name-of-another-image"]
    assert faults(judged(BOTH, Policy(sources="any", builders=("https://*",)))) == ["builder-not-allowed"]
    image: dict[str, Any] = {"buildDefinition": {"buildType": BUILD_TYPE}}
    assert faults(judged(BOTH, said=image)) == ["provenance-unreadable"]
    loose = judged(BOTH, Policy(require=(), sources="any"), key=OTHER)
    assert loose == Verdict((), (), None, (NO_NAME,))


@pytest.mark.parametrize("said", [{}, {"buildDefinition": 1}, {"buildDefinition": {"buildType": "urn:dlc:index:1"}}])
def test_a_provenance_of_another_form_is_none(said: Predicate) -> None:
    with pytest.raises(ValueError, match="no provenance of dlc"):
        read_index_origin(said)


def test_a_digest_that_is_listed_twice_is_looked_at_for_each_platform() -> None:
    """An entry without a platform beside the real one must not hide it."""
    entries = [
        {"mediaType": "m", "digest": FIRST, "size": 1, "platform": {"os": "linux", "architecture": "amd64"}},
        {"mediaType": "m", "digest": FIRST, "size": 1, "platform": {"os": "unknown", "architecture": "unknown"}},
        {"mediaType": "m", "digest": FIRST, "size": 1, "platform": {"os": "linux", "architecture": "arm64"}},
        {"mediaType": "m", "digest": SECOND, "size": 1},
    ]
    index = Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
    assert list_platforms(index) == [(FIRST, AMD), (FIRST, ARM), (SECOND, "")]


def test_outside_a_checkout_tests_count_unless_the_policy_says_what_counts() -> None:
    assert Policy().fill_outside_checkout().require == (*ALWAYS, "tests")
    said = Policy(require=("scan",))
    assert said.fill_outside_checkout() == said
    policies = (Policy(), Policy(sources="checkout"), Policy(sources="any"))
    assert [policy.demands_sources for policy in policies] == [False, True, False]


def test_an_image_that_was_pushed_to_another_repository_gets_no_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repository, "any_manifest", lambda *_: pytest.fail("the registry was asked"))
    image = Manifest.of({"mediaType": "m"})
    with pytest.raises(ImageError, match="expected a provenance that names a tag of this repository, found none"):
        find_tags(Repository(None, "team/tensorflow"), image, {image.digest: ()})  # type: ignore[arg-type]
