"""dlc promote between real registries: what is copied is what was proven, and tags move last or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from hand_made_image import (
    STEM,
    allow_by_labels,
    attach,
    client,
    origin,
    outcome,
    prove,
    prove_index,
    put_image,
    put_index,
    scan,
)

from dlc.__main__ import main
from dlc.cli.promote import make_requirement
from dlc.core.checkout import find_root, read_workspace
from dlc.core.errors import DlcError, ImageError, ProofError, RegistryError, UsageError
from dlc.proof.policy import Policy
from dlc.proof.requirement import find_verifiers, judge_images
from dlc.proof.signing import KeySigner, attach_proof
from dlc.proof.statement import PROVENANCE, SCAN, TESTS
from dlc.registry.client.repository import Manifest, Repository, make_fallback_tag
from dlc.registry.promote import promote_image
from dlc.registry.simple_signing import make_signature_tag
from harness.registry import Registry
from harness.signed_image import make_key

ROOT = find_root(Path(__file__).parent)
ARM = "linux/arm64"
FIXED = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, Registry]]:
    both = (Registry(tmp_path_factory.mktemp("staging")), Registry(tmp_path_factory.mktemp("prod")))
    for registry in both:
        registry.start()
    yield both
    for registry in both:
        registry.kill()


@pytest.fixture
def places(registries: tuple[Registry, Registry], request: pytest.FixtureRequest) -> tuple[str, str]:
    """A path in each registry that no other test has."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name.lower())[-60:].strip("-")
    return f"{registries[0].host}/{name}", f"{registries[1].host}/{name}"


@pytest.fixture
def source(registries: tuple[Registry, Registry], places: tuple[str, str]) -> Repository:
    return client(registries[0], f"{places[0].partition('/')[2]}/pytorch")


@pytest.fixture
def target(registries: tuple[Registry, Registry], places: tuple[str, str]) -> Repository:
    return client(registries[1], f"{places[1].partition('/')[2]}/pytorch")


@pytest.fixture(autouse=True)
def user(registries: tuple[Registry, Registry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the checkout, logged in at both registries."""
    entries = {}
    for registry in registries:
        registry.login(tmp_path / "docker")
        entries |= json.loads((tmp_path / "docker/config.json").read_text())["auths"]
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": entries}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(ROOT)


def ask(repository: Repository, image: Manifest, key: Path | None = None) -> None:
    """Ask of an image what a promotion asks."""
    make_requirement(None, key, "registry.example", read_workspace())(repository, image, image.digest)


def promote(places: tuple[str, str], *words: str) -> int:
    return main(["promote", *words, "--from", places[0], "--to", places[1]])


def test_an_image_is_copied_by_its_digest_with_its_tags_and_what_is_attached(
    places: tuple[str, str], source: Repository, target: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(source, tmp_path, 1, megabytes=9)
    documents = prove(source, image)
    assert promote(places, f"pytorch@{image.digest}", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    copied = target.any_manifest(image.digest)
    assert copied == image
    assert found["digest"] == image.digest
    assert found["sent"] > 9 << 20
    assert set(found["tags"]) == set(source.tags()) - {make_fallback_tag(image.digest)}
    assert {tag for tag in target.tags() if not tag.startswith("sha256-")} == set(found["tags"])
    assert all((there := target.any_manifest(tag)) and there.digest == image.digest for tag in found["tags"])
    assert found["attached"] == documents
    assert [each["digest"] for each in target.referrers(image.digest)] == found["attached"]
    ask(target, image)


def test_a_second_promotion_sends_nothing(
    places: tuple[str, str], source: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(source, tmp_path, 2)
    prove(source, image)
    assert promote(places, f"pytorch:{STEM}") == 0
    assert "B sent" in capsys.readouterr().out
    assert promote(places, f"pytorch:{STEM}") == 0
    assert "was there already" in capsys.readouterr().out


def test_within_a_registry_layers_are_not_sent(
    registries: tuple[Registry, Registry], places: tuple[str, str], source: Repository, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    image = put_image(source, tmp_path, 3, megabytes=1)
    prove(source, image)
    assert promote((places[0], f"{places[0]}-prod"), f"pytorch:{STEM}", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sent"] == 0
    assert client(registries[0], f"{places[0].partition('/')[2]}-prod/pytorch").any_manifest(STEM) == image


def test_a_dry_run_copies_nothing(
    places: tuple[str, str], source: Repository, target: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(source, tmp_path, 4)
    assert promote(places, f"pytorch:{STEM}", "--dry-run") == ProofError.exit_code
    prove(source, image)
    capsys.readouterr()
    assert promote(places, f"pytorch:{STEM}", "--dry-run") == 0
    assert f"{places[1]}/pytorch@{image.digest}  would be copied" in capsys.readouterr().out
    assert target.tags() == []


@pytest.mark.parametrize(
    ("kind", "predicate", "about_other", "said"),
    [
        ("", {}, False, ("scan-missing", "tests-missing")),
        (PROVENANCE, {}, True, ("provenance-of-another-image", "scan-missing", "tests-missing")),
        (SCAN, scan(), False, ("tests-missing",)),
        (TESTS, outcome(), False, ("scan-missing",)),
        (SCAN, scan("CVE-1"), False, ("scan-found", "tests-missing")),
        (SCAN, scan("CVE-1", state="expired"), False, ("scan-found", "tests-missing")),
        (SCAN, scan(hours_ago=24 * 40), False, ("scan-too-old", "tests-missing")),
        (TESTS, outcome("test_one"), False, ("scan-missing", "tests-failed")),
        (SCAN, scan(), True, ("scan-of-another-image", "tests-missing")),
        (SCAN, {"scanner": 1}, False, ("scan-unreadable", "tests-missing")),
    ],
)
def test_an_image_without_a_passing_scan_and_passing_tests_stays_where_it_is(
    kind: str, predicate: dict[str, object], about_other: bool, said: tuple[str, ...], places: tuple[str, str],
    source: Repository, target: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    image = put_image(source, tmp_path, 5)
    if kind != PROVENANCE:
        attach(source, image, PROVENANCE, origin(source, image))
    if kind:
        attach(source, image, kind, predicate, subject=FIXED if about_other else "")
    assert promote(places, f"pytorch:{STEM}") == ProofError.exit_code
    assert tuple(re.findall(r"^  ([a-z]+-[a-z-]+): ", capsys.readouterr().err, re.MULTILINE)) == said
    assert target.tags() == []
    assert target.any_manifest(image.digest) is None


def test_the_last_scan_counts(source: Repository, tmp_path: Path) -> None:
    image = put_image(source, tmp_path, 6)
    prove(source, image)
    attach(source, image, SCAN, scan("CVE-2", hours_ago=0.5))
    with pytest.raises(ProofError, match="CVE-2"):
        ask(source, image)
    attach(source, image, SCAN, scan("CVE-2", state="excepted", hours_ago=0.1))
    ask(source, image)


def test_an_image_of_set_takes_its_own_tags(source: Repository, target: Repository, tmp_path: Path) -> None:
    plain = put_image(source, tmp_path, 7)
    image = put_image(source, tmp_path, 8, suffix="-set-0123abcd")
    found = promote_image(source, target, f"{STEM}-set-0123abcd", allow_by_labels, lambda _: None)
    assert (found.digest, found.tags[-1]) == (image.digest, f"{STEM}-set-0123abcd")
    assert image.digest != plain.digest
    assert STEM not in target.tags()
    with pytest.raises(ImageError, match="expected it under its content tag"):
        promote_image(source, target, image.digest, allow_by_labels, lambda _: None)


def test_a_tag_that_somebody_set_by_hand_on_an_image_without_a_push_is_refused(
    source: Repository, target: Repository, tmp_path: Path
) -> None:
    put_image(source, tmp_path, 9, tags=("mine",))
    with pytest.raises(ImageError, match="found no image"):
        promote_image(source, target, "mine", allow_by_labels, lambda _: None)
    assert target.tags() == []


def test_an_index_of_two_platforms_is_copied_whole(source: Repository, target: Repository, tmp_path: Path) -> None:
    children = [put_image(source, tmp_path, 10, tags=()), put_image(source, tmp_path, 11, tags=(), platform=ARM)]
    index = put_index(source, children, (STEM,))
    found = promote_image(source, target, STEM, allow_by_labels, lambda _: None)
    assert found.digest == index.digest
    assert target.any_manifest(STEM) == index
    assert [target.any_manifest(each.digest) for each in children] == children


def test_a_registry_with_damaged_bytes_moves_no_tag(
    registries: tuple[Registry, Registry], source: Repository, target: Repository, tmp_path: Path
) -> None:
    image = put_image(source, tmp_path, 12)
    blob = registries[0].blob(image.content["layers"][0]["digest"])
    blob.write_bytes(bytes(len(blob.read_bytes())))
    with pytest.raises(RegistryError, match="expected the blob sha256"):
        promote_image(source, target, STEM, allow_by_labels, lambda _: None)
    assert target.tags() == []
    blob.write_bytes(b"cut")
    with pytest.raises(RegistryError):
        promote_image(source, target, STEM, allow_by_labels, lambda _: None)
    assert target.tags() == []


def test_a_registry_that_dies_in_the_middle_moves_no_tag_and_the_next_run_ends_it(
    source: Repository, places: tuple[str, str], tmp_path: Path
) -> None:
    image = put_image(source, tmp_path, 13, megabytes=1)
    registry = Registry(tmp_path / "other")
    registry.start()
    target = client(registry, "team/pytorch")

    def die(_: str) -> None:
        """After the first blob."""
        registry.kill()

    with pytest.raises(RegistryError):
        promote_image(source, target, STEM, allow_by_labels, die)
    assert registry.tags("team/pytorch") == []
    registry.start()
    assert promote_image(source, target, STEM, allow_by_labels, lambda _: None).digest == image.digest
    assert STEM in registry.tags("team/pytorch")
    registry.kill()


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("pytorch:nothing-like-it",), ImageError, "expected an image under nothing-like-it, found none"),
        ((f"pytorch@{FIXED}",), ImageError, f"expected an image under {FIXED}, found none"),
        (("dlc/pytorch:2.13",), UsageError, "expected an image identifier, FRAMEWORK:TAG or FRAMEWORK@sha256:DIGEST"),
    ],
)
def test_what_is_not_there_is_one_error(
    words: tuple[str, ...], error: type[DlcError], said: str, places: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert promote(places, *words) == error.exit_code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("dlc: ") == 1


def test_the_same_place_twice_and_a_wrong_one_are_errors_of_the_command_line(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert promote((places[0], places[0]), "pytorch:one") == UsageError.exit_code
    assert "expected another place than --from, found the same" in capsys.readouterr().err
    assert promote(("staging", places[1]), "pytorch:one") == UsageError.exit_code
    assert "--from staging: expected REGISTRY/REPO" in capsys.readouterr().err


def test_an_identifier_means_what_these_sources_build(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert promote(places, "pytorch-2.13-training-cpu-py311") == ImageError.exit_code
    assert f"expected an image under {STEM}-" in capsys.readouterr().err


def test_days_are_of_no_promotion_s_concern(source: Repository, target: Repository, tmp_path: Path) -> None:
    """Of two builds of one day the tag of the day means the later; promoting the earlier one takes it back there."""
    first = put_image(source, tmp_path, 14, day=date(2026, 11, 1))
    put_image(source, tmp_path, 15, day=date(2026, 11, 1))
    found = promote_image(source, target, first.digest, allow_by_labels, lambda _: None)
    assert found.tags[1] == f"{STEM}-20261101"
    assert target.any_manifest(f"{STEM}-20261101") == first


def test_a_key_says_whose_results_count(
    places: tuple[str, str], source: Repository, target: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(source, tmp_path, 16)
    key = make_key(tmp_path)
    words = (f"pytorch:{STEM}", "--key", str(tmp_path / "cosign.pub"))
    prove(source, image)
    assert promote(places, *words) == ProofError.exit_code
    err = capsys.readouterr().err
    assert "scan-of-another-key" in err
    assert "tests-of-another-key" in err
    assert target.tags() == []
    prove(source, image, key)
    assert promote(places, *words) == 0
    assert "who signed is not checked" not in capsys.readouterr().err
    assert promote(places, f"pytorch:{STEM}") == 0
    assert "who signed is not checked" in capsys.readouterr().err


def test_a_policy_asks_for_more(
    places: tuple[str, str], source: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(source, tmp_path, 17)
    prove(source, image, make_key(tmp_path))
    policy = tmp_path / "policy.yml"
    policy.write_text("signers:\n  - key: cosign.pub\nrequire: [signature]\nsources: any\n")
    assert promote(places, f"pytorch:{STEM}", "--policy", str(policy)) == ProofError.exit_code
    assert "  signature-missing: " in capsys.readouterr().err


def test_what_is_signed_stays_signed_where_it_is_promoted_to(
    places: tuple[str, str], source: Repository, target: Repository, tmp_path: Path
) -> None:
    image = put_image(source, tmp_path, 18)
    key, other = make_key(tmp_path), make_key(tmp_path, "other")
    said = {PROVENANCE: origin(source, image), SCAN: scan(), TESTS: outcome()}
    attach_proof(source, image, "staging", KeySigner(key), said)
    assert promote(places, f"pytorch:{STEM}", "--key", str(tmp_path / "cosign.pub")) == 0
    tag = make_signature_tag(image.digest)
    assert target.manifest(tag) == source.manifest(tag)
    # Somebody signs it here too, and it is promoted once more: both signatures stay.
    attach_proof(target, image, "prod", KeySigner(other), {})
    both = target.manifest(tag)
    assert both is not None
    assert len(both.content["layers"]) == 2
    assert promote(places, f"pytorch:{STEM}", "--key", str(tmp_path / "cosign.pub")) == 0
    assert target.manifest(tag) == both
    attach_proof(source, image, "staging", KeySigner(other), {})
    assert promote(places, f"pytorch:{STEM}", "--key", str(tmp_path / "cosign.pub")) == 0
    joined = target.manifest(tag)
    assert joined is not None
    assert joined.content["layers"][:2] == both.content["layers"]
    assert len(joined.content["layers"]) == 3
    config = json.loads(target.blob(joined.content["config"]["digest"]) or b"")
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in joined.content["layers"]]
    policy = Policy(require=("signature", "scan", "tests"), sources="any")
    signers = find_verifiers(policy, None, tmp_path / "cosign.pub")
    [(_, verdict)] = judge_images(target, "prod", image, STEM, signers, policy, lambda _: "")
    assert verdict.refusals == ()


def test_what_is_attached_to_the_images_in_an_index_goes_with_them(
    places: tuple[str, str], source: Repository, target: Repository, tmp_path: Path
) -> None:
    children = [put_image(source, tmp_path, 19, tags=()), put_image(source, tmp_path, 20, tags=(), platform=ARM)]
    prove_index(source, put_index(source, children, (STEM,)), (STEM,))
    prove(source, children[0])
    assert promote(places, f"pytorch:{STEM}") == ProofError.exit_code
    prove(source, children[1])
    assert promote(places, f"pytorch:{STEM}") == 0
    for child in children:
        listed = [each["digest"] for each in target.referrers(child.digest)]
        assert listed == [each["digest"] for each in source.referrers(child.digest)]
        ask(target, child)


def test_a_document_that_is_listed_and_not_there_holds_nothing_up(
    places: tuple[str, str], source: Repository, target: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = put_image(source, tmp_path, 21)
    documents = prove(source, image)
    gone = attach(source, image, SCAN, scan("CVE-3", hours_ago=2))
    source.delete(gone)
    assert promote(places, f"pytorch:{STEM}") == 0
    assert f"{gone} is listed as attached and is not there" in capsys.readouterr().err
    assert [each["digest"] for each in target.referrers(image.digest)] == documents
