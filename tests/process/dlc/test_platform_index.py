"""One tag for several platforms on a real registry: an index over both, in either order; promote and prune know it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hand_made_image import allow_by_labels, client, put_labelled

from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.push_families import find_families, put_foreign_first
from dlc.core import labels
from dlc.core.checkout import Tree
from dlc.core.platforms import PLATFORMS
from dlc.engine.builders import make_client
from dlc.plan.plan import make_plan
from dlc.proof.evidence import list_images
from dlc.registry.client.repository import INDEX, Manifest, Repository
from dlc.registry.platform_index import Family, move_tags, put_index
from dlc.registry.promote import promote_image
from dlc.registry.prune import Retention, choose, list_repository
from dlc.registry.tag_age import make_claim
from dlc.registry.tags import make_tags
from harness.registry import Registry
from harness.specimen import TENSORFLOW_ID, changed, locked, unlocked

AMD, ARM = "linux/amd64", "linux/arm64"
IDS = {AMD: TENSORFLOW_ID, ARM: f"{TENSORFLOW_ID}-arm64"}
STEM = "2.21.0-training-cpu-py311"
CREATED = "2026-11-20T12:00:00Z"
BOTH = """\
framework: tensorflow
version: "2.21"
job: training
variants:
  - platforms: [linux/amd64, linux/arm64]
    packages: {framework: [tensorflow-cpu==2.21.0]}
"""


@pytest.fixture
def repository(registry: Registry, request: pytest.FixtureRequest) -> Repository:
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    return client(registry, f"{name}/tensorflow")


@pytest.fixture(scope="module")
def tree() -> Tree:
    tree = changed(unlocked(), "buildspec/tensorflow/2.21-training.yml", BOTH)
    return locked(changed(tree, "docker/debian/bookworm-arm64/versions.txt", "libc6=2.36-9\n"))


def find_all(tree: Tree) -> dict[str, Family]:
    variants = load_variants(tree, list(IDS.values()))
    return find_families(variants, tree, [], make_client(), dict.fromkeys(IDS.values(), CREATED))


def put(repository: Repository, folder: Path, tree: Tree, platform: str, family: Family | None = None) -> Manifest:
    """Push a stand-in of one platform's image, as `dlc build --push` does: by its digest, then its tags."""
    target = make_plan(tree, list(IDS.values())).target(IDS[platform])
    said = {**target.labels, labels.CREATED: CREATED}
    image = put_labelled(repository, folder, said, len(platform) + ord(platform[-2]))
    found = family or find_all(tree)[IDS[platform]]
    index = put_index(repository, IDS[platform], image, found)
    move_tags(repository, image, make_tags(target.tags[0], said), index, lambda _: None, make_claim(said))
    return image


def pull(repository: Repository, tag: str, platform: str) -> dict[str, Any]:
    """The labels of the image that a client of this platform gets by a tag, chosen as clients choose."""
    found = repository.any_manifest(tag)
    assert found is not None
    if found.kind == INDEX:
        system, _, architecture = platform.partition("/")
        wanted = {"architecture": architecture, "os": system}
        [digest] = [each["digest"] for each in found.content["manifests"] if each["platform"] == wanted]
        found = repository.manifest(digest)
        assert found is not None
        assert found.digest == digest
    config = repository.blob(found.content["config"]["digest"])
    assert config is not None
    said: dict[str, Any] = json.loads(config)["config"]["Labels"]
    return said


def read(repository: Repository, tag: str) -> str:
    found = repository.any_manifest(tag)
    return found.digest if found else ""


def test_the_shared_tags_mean_an_index_that_gives_each_platform_its_image(
    repository: Repository, tree: Tree, tmp_path: Path
) -> None:
    images = {platform: put(repository, tmp_path, tree, platform) for platform in (ARM, AMD)}
    for tag in (f"{STEM}-bookworm", f"{STEM}-bookworm-20261120"):
        for platform, image in images.items():
            said = pull(repository, tag, platform)
            assert (said[labels.PLATFORM], said[labels.ID]) == (platform, IDS[platform])
            assert image.digest in list_images(repository, "", tag)
    plan = make_plan(tree, list(IDS.values()))
    keys = {platform: plan.target(name).key[:12] for platform, name in IDS.items()}
    assert read(repository, f"{STEM}-bookworm-{keys[AMD]}") == images[AMD].digest
    for end in ("", "-20261120", f"-{keys[ARM]}"):
        assert read(repository, f"{STEM}-arm64-bookworm{end}") == images[ARM].digest
    found = list_images(repository, "registry.example", f"{STEM}-bookworm")
    assert found == tuple(images[name].digest for name in sorted(images))


def test_the_index_is_the_same_in_either_order(registry: Registry, tree: Tree, tmp_path: Path) -> None:
    digests = set()
    for number, order in enumerate(((AMD, ARM), (ARM, AMD))):
        place = client(registry, f"order{number}/tensorflow")
        for platform in order:
            put(place, tmp_path, tree, platform)
        digests.add(read(place, f"{STEM}-bookworm"))
    assert len(digests) == 1
    assert "" not in digests


def test_one_platform_alone_has_the_tags_or_leaves_them(registry: Registry, tree: Tree, tmp_path: Path) -> None:
    first, second = client(registry, "alone1/tensorflow"), client(registry, "alone2/tensorflow")
    assert read(first, f"{STEM}-bookworm") == ""
    image = put(first, tmp_path, tree, AMD)
    assert read(first, f"{STEM}-bookworm") == image.digest
    put(second, tmp_path, tree, ARM)
    assert read(second, f"{STEM}-bookworm") == ""


def test_an_image_of_other_sources_is_in_no_index(repository: Repository, tree: Tree, tmp_path: Path) -> None:
    put(repository, tmp_path, changed(tree, "src/entrypoint/launcher.py", "print('older')\n"), ARM)
    image = put(repository, tmp_path, tree, AMD)
    assert read(repository, f"{STEM}-bookworm") == image.digest


def test_an_image_whose_sibling_has_no_lock_is_pushed_as_it_is(tree: Tree) -> None:
    without = {path: file for path, file in tree.items() if f"{IDS[ARM]}/" not in path}
    variants = load_variants(without, [TENSORFLOW_ID])
    assert find_families(variants, without, [], make_client(), {TENSORFLOW_ID: CREATED}) == {}
    assert sorted(IDS.values(), key=put_foreign_first) == [IDS[ARM], IDS[AMD]]


def test_prune_keeps_what_an_index_has(repository: Repository, tree: Tree, tmp_path: Path) -> None:
    images = [put(repository, tmp_path, tree, platform).digest for platform in (ARM, AMD)]
    listed = list_repository(repository, lambda _: None)
    chosen = choose(listed, Retention(0, 0), date(2026, 11, 20) + timedelta(400))
    assert {choice.name for choice in chosen if not choice.remove} == {*images, read(repository, f"{STEM}-bookworm")}
    assert [choice.why for choice in chosen if choice.name == images[1]] == ["an index over several platforms has it"]


def test_an_index_that_its_tag_has_left_goes_when_the_policy_lets_it(
    repository: Repository, tree: Tree, tmp_path: Path
) -> None:
    for platform in (ARM, AMD):
        put(repository, tmp_path, tree, platform)
    old = read(repository, f"{STEM}-bookworm")
    alone = put(repository, tmp_path, tree, AMD, Family({AMD: "x"}, ()))
    assert read(repository, f"{STEM}-bookworm") == alone.digest
    repository.put_manifest(f"{STEM}-bookworm-20261119", repository.any_manifest(old) or alone)
    repository.put_manifest(f"{STEM}-bookworm-20261120", alone)
    chosen = choose(
        list_repository(repository, lambda _: None), Retention(0, 0), datetime.now(UTC).date() + timedelta(9)
    )
    assert [choice.remove for choice in chosen if choice.name == old] == [True]


def test_an_index_is_promoted_with_both_images(registry: Registry, tree: Tree, tmp_path: Path) -> None:
    source, target = client(registry, "staging/tensorflow"), client(registry, "prod/tensorflow")
    images = [put(source, tmp_path, tree, platform) for platform in (ARM, AMD)]
    promote_image(source, target, f"{STEM}-bookworm", allow_by_labels, print)
    assert read(target, f"{STEM}-bookworm") == read(source, f"{STEM}-bookworm")
    assert all(target.manifest(image.digest) == image for image in images)
    assert set(target.tags()) == set(source.tags())
    assert {pull(target, f"{STEM}-bookworm", name)[labels.PLATFORM] for name in PLATFORMS} == {AMD, ARM}
