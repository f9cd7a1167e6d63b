"""dlc plan --missing-from: what a registry has, not what a commit changed, says which images are to be built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hand_made_image import client, put_labelled

from dlc.__main__ import main
from dlc.core.errors import RegistryError, UsageError
from dlc.core.labels import CREATED
from dlc.plan.plan import make_plan
from dlc.registry.client.repository import Manifest
from dlc.registry.platform_index import make_index
from dlc.registry.tags import make_tags
from harness.registry import Registry
from harness.specimen import TENSORFLOW_ID, TORCH_ID, locked, unlocked, write_tree

TREE = locked(unlocked())
LAUNCHER = "src/entrypoint/launcher.py"


@pytest.fixture
def place(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A path in the registry that no other test has; the specimen, in no repository of git, is the current folder."""
    write_tree(TREE, tmp_path / "checkout")
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name, value in registry.login(tmp_path / "docker").items():
        monkeypatch.setenv(name, value)
    return f"{registry.host}/{request.node.name.replace('_', '-')[:60].strip('-')}"


def names(capsys: pytest.CaptureFixture[str], place: str, *words: str) -> list[str]:
    assert main(["plan", "--missing-from", place, "--names", *words]) == 0
    return capsys.readouterr().out.splitlines()


def put(registry: Registry, place: str, folder: Path, image: str, *, key: str = "", is_index: bool = False) -> Manifest:
    """Push a stand-in of an image of the specimen, under the tags that a push sets."""
    target = make_plan(TREE, [image]).target(image)
    said = {**target.labels, CREATED: "2026-11-20T12:00:00Z"}
    if key:
        said["org.dlc.content-key"] = key
    framework = image.partition("-")[0]
    repository = client(registry, f"{place.partition('/')[2]}/{framework}")
    manifest = put_labelled(repository, folder, said, 1)
    if is_index:
        other = put_labelled(repository, folder, {"org.dlc.content-key": "0" * 64}, 2)
        manifest = make_index({"linux/arm64": other, "linux/amd64": manifest})
    for tag in make_tags(target.tags[0], said):
        repository.put_manifest(tag, manifest)
    return manifest


def test_what_a_run_left_undone_is_named_until_the_registry_has_it(
    registry: Registry, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a failed, cancelled or superseded run nothing is known but what it pushed; no commit is asked for."""
    assert names(capsys, place) == [TORCH_ID, TENSORFLOW_ID]
    put(registry, place, tmp_path, TENSORFLOW_ID)
    assert names(capsys, place) == [TORCH_ID]
    assert names(capsys, place, "tensorflow-*") == []
    put(registry, place, tmp_path, TORCH_ID, is_index=True)
    assert names(capsys, place) == []


def test_a_tag_with_other_sources_counts_as_missing_though_the_image_is_there(
    registry: Registry, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a change was taken back its old image is there, and the tag still means the newer one."""
    put(registry, place, tmp_path, TORCH_ID)
    put(registry, place, tmp_path, TENSORFLOW_ID)
    assert names(capsys, place) == []
    put(registry, place, tmp_path, TORCH_ID, key="1" * 64)
    assert main(["plan", "--missing-from", place, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["id"] == TORCH_ID
    assert found["tag"].startswith(f"{place}/pytorch:2.13")
    assert found["why"] == "an image of other sources"
    assert main(["plan", "--missing-from", place]) == 0
    out = capsys.readouterr().out
    assert f"{TORCH_ID}  an image of other sources under {found['tag']}\n" in out
    assert out.endswith(f"1 of 2 images are missing from {place}\n")


def test_a_changed_launcher_makes_every_image_missing(
    registry: Registry, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(registry, place, tmp_path, TORCH_ID)
    put(registry, place, tmp_path, TENSORFLOW_ID)
    Path(LAUNCHER).write_text("print('newer')\n")
    assert names(capsys, place) == [TORCH_ID, TENSORFLOW_ID]


def test_a_registry_that_does_not_answer_names_no_image(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knows what it has, which is an error: neither all images nor none of them."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    assert main(["plan", "--missing-from", place, "--names"]) == RegistryError.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("dlc: ") == 1


@pytest.mark.parametrize("word", ["", "registry.example", "http://registry.example/repo"])
def test_a_wrong_place_is_one_error(word: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", f"--missing-from={word}"]) == UsageError.exit_code
    assert f"--missing-from {word}: expected REGISTRY/REPO" in capsys.readouterr().err


def test_two_questions_at_once_are_an_error(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--missing-from", place, "--changed-since", "HEAD"]) == UsageError.exit_code
    assert "expected --changed-since or --missing-from, found both" in capsys.readouterr().err
