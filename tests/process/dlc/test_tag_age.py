"""A tag goes to no older image, unless `--back` asks for it: promotions between real registries, and pushes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hand_made_image import ID, STEM, allow_by_labels, client, prove, put_image, put_index, put_labelled

from dlc.__main__ import main
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import find_root, read_tree
from dlc.core.errors import OlderImageError, RegistryError
from dlc.plan.plan import plan_variants
from dlc.registry.client.repository import Manifest, Repository
from dlc.registry.platform_index import make_index, move_tags
from dlc.registry.promote import promote_image
from dlc.registry.read_image import read_labels
from dlc.registry.tag_age import Claim, find_newer, make_claim
from dlc.registry.tags import make_tags
from harness.registry import Registry

ROOT = find_root(Path(__file__).parent)
MONDAY, TUESDAY = date(2026, 11, 23), date(2026, 11, 24)


@pytest.fixture
def source(registry: Registry, path: str) -> Repository:
    return client(registry, f"{path}-staging/pytorch")


@pytest.fixture
def target(registry: Registry, path: str) -> Repository:
    return client(registry, f"{path}-prod/pytorch")


@pytest.fixture
def promote(registry: Registry, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run `dlc promote` in the checkout, from the one repository to the other."""
    for name, value in registry.login(tmp_path / "docker").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)
    place = f"{registry.host}/{path}"
    return lambda *words: main(["promote", *words, "--from", f"{place}-staging", "--to", f"{place}-prod"])


def put_proven(source: Repository, folder: Path, number: int, day: date, hour: int = 0, key: str = "") -> Manifest:
    """Push an image to staging under its content tag, with what a promotion asks for."""
    image = put_image(source, folder, number, day=day, hour=hour, key=key)
    prove(source, image)
    return image


def name(image: Manifest) -> str:
    return f"pytorch@{image.digest}"


def test_a_slow_pipeline_of_an_older_commit_moves_no_tag_back(
    promote: Callable[..., int], source: Repository, target: Repository, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    older = put_proven(source, tmp_path, 1, MONDAY, hour=9)
    newer = put_proven(source, tmp_path, 2, MONDAY, hour=10)
    assert promote(name(newer)) == 0
    capsys.readouterr()
    for words in ((), ("--dry-run",)):
        assert promote(name(older), *words) == OlderImageError.exit_code == 34
        out, err = capsys.readouterr()
        assert out == ""
        assert f"prod/pytorch:{STEM}: expected an image of 2026-11-23T09:00:00Z or before" in err
        assert f"found one of 2026-11-23T10:00:00Z ({newer.digest})" in err
        assert "--back" in err
    assert target.any_manifest(STEM) == newer
    assert target.any_manifest(f"{STEM}-20261123") == newer
    assert target.any_manifest(older.digest) is None, "a refused promotion copies nothing"


def test_back_moves_them_with_a_word_and_the_newer_image_comes_again_without_it(
    promote: Callable[..., int], source: Repository, target: Repository, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    older, newer = put_proven(source, tmp_path, 1, MONDAY), put_proven(source, tmp_path, 2, TUESDAY)
    assert promote(name(newer)) == 0
    assert " from " not in capsys.readouterr().out
    for words in (("--dry-run",), ()):
        assert promote(name(older), "--back", *words) == 0
        out = capsys.readouterr().out
        assert f"prod/pytorch:{STEM}  GOES BACK from {newer.digest}, of 2026-11-24T00:00:00Z\n" in out
    assert target.any_manifest(STEM) == older
    assert promote(name(newer)) == 0
    assert f"prod/pytorch:{STEM}  moves from {older.digest}, of 2026-11-23T00:00:00Z\n" in capsys.readouterr().out
    assert target.any_manifest(STEM) == newer


@pytest.mark.long
def test_the_same_image_and_one_of_the_same_second_pass(
    promote: Callable[..., int], source: Repository, target: Repository, tmp_path: Path
) -> None:
    first, second = put_proven(source, tmp_path, 1, MONDAY), put_proven(source, tmp_path, 2, MONDAY)
    for image in (first, second, second, first):
        assert promote(name(image)) == 0
        assert target.any_manifest(STEM) == image


def test_a_commit_that_takes_a_change_back_gets_its_old_image(
    promote: Callable[..., int], source: Repository, target: Repository, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What counts for an identifier is the commit of these sources, not the one that first built their image."""
    tree = read_tree(ROOT)
    key = plan_variants(load_variants(tree, [ID]), tree, [ID]).target(ID).key
    mine = put_proven(source, tmp_path, 1, MONDAY, key=key)
    other = put_proven(source, tmp_path, 2, TUESDAY)
    assert promote(name(other)) == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp())))
    assert promote(ID) == OlderImageError.exit_code
    assert target.any_manifest(STEM) == other
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(datetime(2026, 11, 25, tzinfo=UTC).timestamp())))
    assert promote(ID) == 0
    assert target.any_manifest(STEM) == mine


def test_a_tag_that_moves_during_the_copy_stays(source: Repository, target: Repository, tmp_path: Path) -> None:
    """The order is asked for a second time, when all is copied."""
    older = put_image(source, tmp_path, 1, day=MONDAY)
    asked: list[int] = []

    def require_order(_repository: Repository, _tags: object, _labels: object) -> None:
        asked.append(len(asked))
        if len(asked) > 1:
            raise OlderImageError("newer")

    with pytest.raises(OlderImageError):
        promote_image(source, target, older.digest, allow_by_labels, lambda _: None, require_order)
    assert target.any_manifest(older.digest) == older
    assert target.tags() == []


def test_a_push_sets_the_content_tag_and_leaves_the_others(target: Repository, tmp_path: Path) -> None:
    newer = put_image(target, tmp_path, 2, day=MONDAY, hour=10)
    older = put_image(target, tmp_path, 1, day=MONDAY, hour=9, tags=())
    labels = json.loads(target.blob(older.content["config"]["digest"]) or b"")["config"]["Labels"]
    tags = make_tags("dlc/pytorch:1", labels)
    claim = Claim("1" * 64, datetime(2026, 11, 23, 9, tzinfo=UTC))
    moved, left = move_tags(target, older, tags, None, lambda _: None, claim)
    assert moved == tags[:1]
    assert [each.tag for each in left] == list(tags[1:])
    assert target.any_manifest(tags[0]) == older
    assert target.any_manifest(STEM) == newer
    back = Claim(claim.key, claim.moment, back=True)
    assert move_tags(target, older, tags, None, lambda _: None, back) == (tags, ())
    assert target.any_manifest(STEM) == older


def test_an_index_is_as_new_as_its_newest_image(target: Repository, tmp_path: Path) -> None:
    images = {"linux/amd64": put_image(target, tmp_path, 1, day=MONDAY, tags=())}
    images["linux/arm64"] = put_image(target, tmp_path, 2, day=TUESDAY, tags=())
    target.put_manifest("both", make_index(images))
    [found] = find_newer(target, ["both", "no-such-tag"], Claim("other", datetime(2026, 11, 23, 12, tzinfo=UTC)))
    assert (found.tag, found.created) == ("both", "2026-11-24T00:00:00Z")


def test_an_entry_of_no_platform_says_nothing_of_an_index_s_age(target: Repository, tmp_path: Path) -> None:
    """Engines take no such entry for an image, so nobody judges it: its labels say whatever its author wants."""
    image = put_image(target, tmp_path, 1, day=MONDAY, tags=())
    other = put_image(target, tmp_path, 2, day=date(2999, 1, 1), tags=())
    index = put_index(target, [other, image], ("both",), ("unknown/unknown", "linux/amd64"))
    assert make_claim(read_labels(target, index)).moment == datetime(2026, 11, 23, tzinfo=UTC)
    assert find_newer(target, ["both"], Claim("other", datetime(2026, 11, 23, 12, tzinfo=UTC))) == ()
    with pytest.raises(RegistryError, match="found an index without any"):
        read_labels(target, put_index(target, [other], (), ("unknown/unknown",)))


def test_an_image_of_another_tool_holds_no_tag(target: Repository, tmp_path: Path) -> None:
    """It says no commit, as a damaged one does: the push of a good image must take the tag."""
    target.put_manifest("latest", put_labelled(target, tmp_path, {}, 1))
    assert find_newer(target, ["latest"], Claim("other", datetime(2026, 11, 23, tzinfo=UTC))) == ()
