"""dlc prune in a repository to which strangers may push: what it prints as kept stays whole, with its documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hand_made_image import KEY, STEM, client, prove, put_image, put_index, put_labelled

from dlc.__main__ import main
from dlc.core import labels
from dlc.core.checkout import find_root
from dlc.proof.signing import KeySigner, attach_proof
from dlc.registry.client.http import UnreadableError
from dlc.registry.client.repository import INDEX, KINDS, Manifest, Repository, describe_blob, make_fallback_tag
from dlc.registry.referrers import EMPTY, EMPTY_KIND, put_blob
from dlc.registry.simple_signing import make_signature_tag
from harness.registry import Registry

ROOT = find_root(Path(__file__).parent)
TODAY = datetime.now(UTC).date()
Prune = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def repository(registry: Registry, path: str) -> Repository:
    return client(registry, f"{path}/pytorch")


@pytest.fixture
def prune(
    registry: Registry, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Prune:
    """Run `dlc prune --yes`; give its rows by digest or tag."""
    monkeypatch.setenv("DOCKER_CONFIG", registry.login(tmp_path / "docker")["DOCKER_CONFIG"])
    monkeypatch.chdir(ROOT)

    def run(*words: str) -> dict[str, dict[str, Any]]:
        assert main(["prune", f"{registry.host}/{path}", "--yes", "--json", *words]) == 0
        return {row["name"]: row for row in json.loads(capsys.readouterr().out)}

    return run


def put_old(repository: Repository, folder: Path, number: int = 1) -> Manifest:
    """An old build that no moving tag means, once another build is pushed after it."""
    image = put_image(repository, folder, number, day=TODAY - timedelta(90 + number))
    put_image(repository, folder, 100 + number)
    return image


def list_as_documents(repository: Repository, image: Manifest, listed: list[Manifest]) -> Manifest:
    """Add what a stranger wants to the list of an image's documents, beside those that are there."""
    there = repository.any_manifest(make_fallback_tag(image.digest))
    entries = list(there.content["manifests"]) if there else []
    entries += [{**describe_blob(each.kind, each.data), "artifactType": "application/junk"} for each in listed]
    index = Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
    repository.put_manifest(make_fallback_tag(image.digest), index)
    return index


def put_document(repository: Repository, subject: Manifest, layer: bytes = b"about it") -> Manifest:
    """A document about an image, in no list and under no tag."""
    for content in (EMPTY, layer):
        put_blob(repository, content)
    document = Manifest.of({
        "schemaVersion": 2, "mediaType": KINDS[0], "artifactType": "application/junk",
        "config": describe_blob(EMPTY_KIND, EMPTY), "layers": [describe_blob("application/junk", layer)],
        "subject": describe_blob(subject.kind, subject.data),
    })  # fmt: skip
    repository.put_manifest(document.digest, document)
    return document


def test_an_image_that_is_listed_as_a_document_of_an_old_one_stays(
    repository: Repository, prune: Prune, tmp_path: Path
) -> None:
    old, golden = put_old(repository, tmp_path), put_image(repository, tmp_path, 3, tags=("golden",))
    documents = prove(repository, old)
    list_as_documents(repository, old, [golden])
    rows = prune("--keep", "1", "--days", "30")
    assert rows[old.digest]["removed"]
    assert repository.any_manifest(old.digest) is None
    assert not any(repository.any_manifest(digest) for digest in documents)
    assert make_fallback_tag(old.digest) not in repository.tags()
    assert not rows[golden.digest]["remove"]
    assert repository.any_manifest("golden") == golden


def test_the_proofs_of_a_kept_image_stay_whatever_lists_them(
    repository: Repository, prune: Prune, tmp_path: Path
) -> None:
    """Its signature under cosign's tag, its list of documents and each of these have further tags and lists here."""
    old, golden = put_old(repository, tmp_path), put_image(repository, tmp_path, 3, tags=("golden",))
    proofs = prove(repository, golden)
    attach_proof(repository, golden, "team", KeySigner(KEY), {})
    signatures, listed = (
        repository.any_manifest(name(golden.digest)) for name in (make_signature_tag, make_fallback_tag)
    )
    assert signatures
    assert listed
    list_as_documents(repository, old, [*filter(None, map(repository.any_manifest, proofs)), signatures, listed])
    repository.put_manifest(make_signature_tag(old.digest), signatures)
    repository.put_manifest(f"{make_fallback_tag(old.digest)}.att", signatures)
    gone = put_image(repository, tmp_path, 4, tags=())
    repository.put_manifest(make_fallback_tag(gone.digest), listed)
    repository.delete(gone.digest)
    assert prune("--keep", "1", "--days", "30")[old.digest]["removed"]
    assert repository.any_manifest(make_signature_tag(golden.digest)) == signatures
    assert repository.any_manifest(make_fallback_tag(golden.digest)) == listed
    assert all(map(repository.any_manifest, proofs))


def test_a_list_of_documents_that_two_images_share_stays_with_the_kept_one(
    repository: Repository, prune: Prune, tmp_path: Path
) -> None:
    old, golden = put_old(repository, tmp_path), put_image(repository, tmp_path, 3, tags=("golden",))
    proofs = prove(repository, golden)
    listed = repository.any_manifest(make_fallback_tag(golden.digest))
    assert listed
    repository.put_manifest(make_fallback_tag(old.digest), listed)
    assert prune("--keep", "1", "--days", "30")[old.digest]["removed"]
    assert repository.any_manifest(make_fallback_tag(golden.digest)) == listed
    assert all(map(repository.any_manifest, proofs))


def test_an_image_under_the_tag_of_a_document_stays(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    """Programs that copy by digest name their copies so."""
    old = put_old(repository, tmp_path)
    tags: dict[str, Manifest] = {}
    for number, digest in enumerate((old.digest, f"sha256:{'0' * 64}")):
        for suffix in ("", ".sig", ".att", ".sbom"):
            image = put_image(repository, tmp_path, 10 * number + len(tags) + 3, tags=())
            tags[f"{make_fallback_tag(digest)}{suffix}"] = image
    for tag, image in tags.items():
        repository.put_manifest(tag, image)
    rows = prune("--keep", "1", "--days", "30")
    assert rows[old.digest]["removed"]
    for tag, image in tags.items():
        assert (rows[image.digest]["remove"], rows[image.digest]["tags"]) == (False, [tag])
        assert repository.any_manifest(tag) == image


def test_an_index_under_the_tag_of_a_list_stays_and_so_do_its_images(
    repository: Repository, prune: Prune, tmp_path: Path
) -> None:
    old = put_old(repository, tmp_path)
    images = [put_image(repository, tmp_path, number, tags=()) for number in (3, 4)]
    tag = make_fallback_tag(f"sha256:{'0' * 64}")
    index = put_index(repository, images, (tag, make_fallback_tag(old.digest)), ("linux/amd64", "linux/arm64"))
    assert prune("--keep", "1", "--days", "30")[old.digest]["removed"]
    assert repository.any_manifest(tag) == index
    assert [repository.any_manifest(each.digest) for each in images] == images


def test_an_index_of_an_index_keeps_its_images(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    images = [put_old(repository, tmp_path, number) for number in (1, 2)]
    inner = put_index(repository, images, (), ("linux/amd64", "linux/arm64"))
    outer = put_index(repository, [inner], (), ("linux/amd64",))
    put_index(repository, [outer], ("release",), ("linux/amd64",))
    rows = prune("--keep", "1", "--days", "30")
    assert [rows[each.digest]["remove"] for each in images] == [False, False]
    assert [repository.any_manifest(each.digest) for each in (*images, inner, outer)] == [*images, inner, outer]


def test_a_document_with_a_tag_of_its_own_stays(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    old = put_old(repository, tmp_path)
    report, draft = (put_document(repository, old, text) for text in (b"the report", b"a draft"))
    repository.put_manifest("report", report)
    list_as_documents(repository, old, [report, draft])
    assert prune("--keep", "1", "--days", "30")[old.digest]["removed"]
    assert repository.any_manifest("report") == report
    assert repository.any_manifest(draft.digest) is None


def test_a_tag_with_digits_that_are_no_content_key_was_set_by_somebody(
    repository: Repository, prune: Prune, tmp_path: Path
) -> None:
    image = put_image(repository, tmp_path, 1, day=TODAY - timedelta(90), tags=("nightly-0123456789ab",))
    put_image(repository, tmp_path, 2, day=TODAY - timedelta(80), tags=("nightly-0123456789ac",))
    row = prune("--keep", "1", "--days", "1")[image.digest]
    assert (row["remove"], row["why"]) == (False, "a tag that dlc did not set nightly-0123456789ab means it")


def put_dated(repository: Repository, folder: Path, number: int, created: str | None) -> Manifest:
    """A build of one image under its content tag alone, with this date, or with none."""
    key = f"{number:064x}"[::-1]
    dates = {} if created is None else {labels.CREATED: created}
    said = {labels.ID: "pytorch-2.13-training-cpu-py311", labels.KEY: key, **dates}
    image = put_labelled(repository, folder, said, number)
    repository.put_manifest(f"{STEM}-{key[:12]}", image)
    return image


def test_a_build_without_a_date_is_never_removed(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    """A project outside git has no commit, and its image the first second of 1970."""
    dates = ["1970-01-01T00:00:00Z", "yesterday", "", None, "0001-01-01T00:00:00+14:00"]
    images = [put_dated(repository, tmp_path, number, created) for number, created in enumerate(dates, 1)]
    put_dated(repository, tmp_path, 9, "2026-11-20T12:00:00Z")
    rows = prune("--keep", "1", "--days", "1")
    for image in images:
        assert (rows[image.digest]["remove"], rows[image.digest]["why"]) == (False, "it says no date of a commit")
        assert repository.any_manifest(image.digest) == image


def test_builds_of_one_day_are_kept_by_their_time(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    day = date(2026, 11, 20)
    hours = [11, 3, 17, 8, 22, 1]
    builds = {hour: put_dated(repository, tmp_path, hour, f"{day}T{hour:02}:00:00Z") for hour in hours}
    rows = prune("--keep", "2", "--days", "1")
    assert sorted(hour for hour, image in builds.items() if not rows[image.digest]["remove"]) == [17, 22]
    # The same in another zone: 16:30Z.
    other = put_dated(repository, tmp_path, 30, f"{day}T23:30:00+07:00")
    assert prune("--keep", "2", "--days", "1")[other.digest]["remove"]


def test_of_equally_old_builds_none_is_removed_by_chance(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    """Builds of changed files have the time of one commit."""
    same = [put_dated(repository, tmp_path, number, "2026-11-20T12:00:00Z") for number in range(1, 5)]
    older = put_dated(repository, tmp_path, 9, "2026-11-20T11:59:59Z")
    rows = prune("--keep", "2", "--days", "1")
    assert not any(rows[image.digest]["remove"] for image in same)
    assert rows[older.digest]["remove"]


def test_a_date_to_come_takes_no_place_of_the_last_builds(repository: Repository, prune: Prune, tmp_path: Path) -> None:
    real = put_dated(repository, tmp_path, 1, "2026-11-01T00:00:00Z")
    future = [put_dated(repository, tmp_path, number, f"2999-01-0{number}T00:00:00Z") for number in (2, 3)]
    rows = prune("--keep", "1", "--days", "1")
    assert rows[real.digest]["why"] == "one of the last 1 builds"
    assert all(re.match("its date is to come: 2999-01-0[23]$", rows[image.digest]["why"]) for image in future)


def test_what_nobody_can_read_ends_no_prune_and_keeps_what_it_names(
    repository: Repository, prune: Prune, tmp_path: Path
) -> None:
    """Whoever may push gives a tag to a manifest that a registry takes and dlc does not read."""
    old, named, deep = put_old(repository, tmp_path), put_old(repository, tmp_path, 2), put_old(repository, tmp_path, 3)
    entry = {"digest": named.digest, "size": len(named.data)}
    odd = Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})
    text = deep.data[:-1] + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    for tag in ("junk", make_signature_tag(old.digest), f"{make_fallback_tag(old.digest)}.att"):
        repository.put_manifest(tag, odd)
    repository.put_manifest("deep", Manifest(text, deep.kind))
    layer = named.content["layers"][0]
    of_a_layer = {"mediaType": named.kind, "digest": layer["digest"], "size": layer["size"]}
    index = Manifest.of({"schemaVersion": 2, "mediaType": INDEX, "manifests": [of_a_layer]})
    repository.put_manifest("index-of-a-layer", index)
    list_as_documents(repository, old, [odd, index])
    rows = prune("--keep", "1", "--days", "30")
    assert rows[old.digest]["removed"]
    assert rows[deep.digest]["removed"]
    assert rows[named.digest]["why"] == "an index over several platforms has it"
    assert rows[odd.digest]["why"].startswith("a tag that dlc did not set")
    assert repository.any_manifest(named.digest) == named
    with pytest.raises(UnreadableError):
        repository.any_manifest("junk")
