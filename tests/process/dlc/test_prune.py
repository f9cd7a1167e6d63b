"""dlc prune on a real registry: what a policy keeps, and what is removed with its documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest
from hand_made_image import KEY, STEM, client, prove, put_image

from dlc.__main__ import main
from dlc.core.checkout import find_root
from dlc.core.errors import RegistryError
from dlc.proof.signing import KeySigner, attach_proof
from dlc.registry.client.repository import Manifest, Repository, make_fallback_tag
from dlc.registry.prune import Build, Choice, Listed, Retention, choose, find_today, list_repository
from dlc.registry.read_image import read_labels
from dlc.registry.removal import remove
from dlc.registry.simple_signing import make_signature_tag
from dlc.registry.tags import make_tags
from harness.registry import Registry

ROOT = find_root(Path(__file__).parent)
TODAY = datetime.now(UTC).date()


def days_ago(days: int) -> date:
    return TODAY - timedelta(days)


def quiet(_: str) -> None:
    """Say nothing."""


def test_a_clock_that_is_ahead_makes_no_build_older() -> None:
    class There(Repository):
        def __init__(self, day: date | None) -> None:
            self.day = day

        def read_day(self) -> date | None:
            return self.day

    said: list[str] = []
    assert find_today(There(days_ago(365)), TODAY, said.append) == days_ago(365)
    assert said == [f"this machine's clock says {TODAY}, the registry's {days_ago(365)}, which counts"]
    for day in (days_ago(-365), TODAY, None):
        assert find_today(There(day), TODAY, said.append) == TODAY
    assert len(said) == 1


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    running = Registry(tmp_path / "registry")
    running.start()
    monkeypatch.setenv("DOCKER_CONFIG", running.login(tmp_path / "docker")["DOCKER_CONFIG"])
    monkeypatch.chdir(ROOT)
    yield running
    running.kill()


@pytest.fixture
def repository(registry: Registry) -> Repository:
    return client(registry, "team/pytorch")


@pytest.fixture
def builds(repository: Repository, tmp_path: Path) -> list[Manifest]:
    """Six builds of one image, the last one today; each has documents."""
    found = []
    for number, age in enumerate((90, 80, 70, 60, 10, 0)):
        found.append(put_image(repository, tmp_path, number, day=days_ago(age)))
        prove(repository, found[-1])
        attach_proof(repository, found[-1], "team", KeySigner(KEY), {})
    return found


def test_what_the_policy_keeps_stays_and_the_rest_goes_with_its_documents(
    registry: Registry, repository: Repository, builds: list[Manifest], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["prune", f"{registry.host}/team", "--keep", "1", "--days", "65", "--json"]
    before = repository.tags()
    assert main(words) == 0
    planned = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert [planned[each.digest]["remove"] for each in builds] == [True, True, True, False, False, False]
    assert not any(row["removed"] for row in planned.values())
    assert repository.tags() == before
    documents = [str(each["digest"]) for each in repository.referrers(builds[0].digest)]
    assert main([*words, "--yes"]) == 0
    assert [row["removed"] for row in json.loads(capsys.readouterr().out)] == [True, True, True, False, False, False]
    assert [repository.any_manifest(each.digest) for each in builds] == [None, None, None, *builds[3:]]
    assert [repository.any_manifest(digest) for digest in documents] == [None] * 4
    left = set(repository.tags())
    assert make_fallback_tag(builds[0].digest) not in left
    for name in (make_fallback_tag, make_signature_tag):
        assert {name(each.digest) for each in builds[3:]} <= left
        assert not {name(each.digest) for each in builds[:3]} & left
    for each in builds[3:]:
        assert all(repository.any_manifest(str(found["digest"])) for found in repository.referrers(each.digest))
    assert repository.any_manifest(STEM) == builds[-1]
    assert all(
        repository.any_manifest(tag) == builds[3] for tag in make_tags("", read_labels(repository, builds[3]))[:2]
    )


def test_the_text_says_why_and_how_to_go_on(
    registry: Registry, builds: list[Manifest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prune", f"{registry.host}/team", "--keep", "2", "--days", "1"]) == 0
    out = capsys.readouterr().out
    assert f"keep    {builds[-1].digest}  the moving tag {STEM} means it" in out
    assert f"keep    {builds[-2].digest}  one of the last 2 builds" in out
    assert f"remove  {builds[0].digest}  its commit is 90 days old" in out
    assert "4 of 6 would be removed: --yes" in out


def test_an_image_that_a_tag_has_moved_to_meanwhile_stays(repository: Repository, builds: list[Manifest]) -> None:
    choices = choose(list_repository(repository, quiet), Retention(keep=1, days=1), TODAY)
    repository.put_manifest("release", builds[0])
    said: list[str] = []
    gone = remove(repository, choices, said.append)
    assert builds[0].digest not in gone
    assert f"{builds[0].digest} stays: release means it now" in said
    assert repository.any_manifest("release") == builds[0]
    assert len(gone) == 4


def test_documents_of_an_image_that_is_gone_are_removed(
    repository: Repository, tmp_path: Path, builds: list[Manifest]
) -> None:
    repository.delete(builds[0].digest)
    choices = choose(list_repository(repository, quiet), Retention(keep=9, days=9), TODAY)
    orphans = [make_fallback_tag(builds[0].digest), make_signature_tag(builds[0].digest)]
    assert sorted(choice.name for choice in choices if choice.remove) == orphans
    assert sorted(remove(repository, choices, quiet)) == orphans
    assert not set(orphans) & set(repository.tags())


def test_a_registry_that_allows_no_deletion_is_one_error(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "fixed")
    registry.deletes = False
    registry.start()
    try:
        repository = client(registry, "team/pytorch")
        image = put_image(repository, tmp_path, 1, day=days_ago(90))
        with pytest.raises(RegistryError, match="allows no deletion") as caught:
            remove(repository, [Choice(image.digest, tuple(repository.tags()), True, "")], quiet)
        assert "REGISTRY_STORAGE_DELETE_ENABLED" in caught.value.remedy
        assert repository.any_manifest(STEM) == image
    finally:
        registry.kill()


def test_more_tags_than_one_page_has_are_all_found(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlc.registry.client.repository.TAGS_AT_ONCE", 3)
    tags = tuple(f"tag-{number}" for number in range(10))
    put_image(repository, tmp_path, 1, tags=tags)
    assert sorted(repository.tags()) == sorted(tags)
    assert client_tags_of_nothing(repository) == []


def client_tags_of_nothing(repository: Repository) -> list[str]:
    """Of a repository that there is not."""
    return Repository(repository._session, "team/nothing").tags()


def build(digest: str, age: int, *tags: str, stem: str = "s") -> Build:
    return Build(digest, tags, stem, datetime.combine(days_ago(age), time(), UTC))


def test_tags_that_dlc_did_not_set_keep_their_image() -> None:
    listed = Listed((build("a", 400, "s-000000000000", "golden"), build("b", 400, "any", stem="")), ())
    assert [choice.remove for choice in choose(listed, Retention(1, 1), TODAY)] == [False, False]


def test_what_a_builder_left_unverified_is_removed_when_it_is_old_and_takes_no_place_of_the_last() -> None:
    old, new = "s-000000000000-unverified", "s-000000000001-unverified"
    listed = Listed((build("a", 40, old), build("b", 0, new), build("c", 50, "s-000000000002")), ())
    found = {choice.name: choice.remove for choice in choose(listed, Retention(1, 30), TODAY)}
    assert found == {"a": True, "b": False, "c": False}
