"""`dlc verify-reproducible --against`: a second builder's image is compared with what the first has pushed.

The build itself is a value here: tests/integration/test_build.py has real ones.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from verify_shop import Shop

from dlc import cli
from dlc.cli import verify_reproducible
from dlc.core.errors import DlcError, ImageError, RegistryError, UsageError
from dlc.engine import images
from dlc.engine.docker_client import Engine
from dlc.inspection import reproducible
from dlc.inspection.archive import Archive, Layer
from dlc.registry.client.repository import CONFIG, Manifest, make_digest, make_manifest
from dlc.registry.layers import LAYER
from dlc.registry.referrers import put_blob
from harness.signed_image import SignedImage, push_plain
from harness.specimen import TORCH_ID, changed, specimen


@pytest.fixture
def shop(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(verify_reproducible, "connect", lambda: Engine(None, "a test", "26.1", containerd_store=False))
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    return shop


def read_config(shop: Shop, image: Manifest) -> dict[str, Any]:
    data = shop.repository.blob(image.content["config"]["digest"])
    assert data is not None
    return dict(json.loads(data))


def rebuild(monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]) -> list[str]:
    """Let the next builds give an image of this configuration; return a list to which each adds its image."""
    built: list[str] = []

    def build(plan: Any, *_: Any, **__: Any) -> Archive:
        built.extend(plan.selected)
        layers = tuple(Layer(digest, "RUN it", {}) for digest in config["rootfs"]["diff_ids"])
        return Archive(f"sha256:{'7' * 64}", config, layers)

    monkeypatch.setattr(reproducible, "build_from_nothing", build)
    return built


def compare(shop: Shop, *words: str) -> int:
    return cli.run(["verify-reproducible", TORCH_ID, "--against", shop.reference, *words])


def test_the_same_bytes_are_identical_and_the_record_says_what_they_were_compared_with(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = push_plain(shop.repository, SignedImage().labels)
    built = rebuild(monkeypatch, read_config(shop, image))
    assert compare(shop, "--json") == 0
    [row] = json.loads(capsys.readouterr().out)
    assert built == [TORCH_ID]
    assert (row["identical"], row["differences"]) == (True, [])
    assert row["against"] == f"{shop.registry.host}/{shop.repository.name}@{image.digest}"
    assert row["config"] == image.content["config"]["digest"]


def test_another_layer_is_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = push_plain(shop.repository, SignedImage().labels)
    config = read_config(shop, image)
    rebuild(monkeypatch, {**config, "rootfs": {"diff_ids": [make_digest(b"another")]}})
    with pytest.raises(ImageError, match="expected the same bytes from both builds"):
        compare(shop)
    assert f"the pushed image has {config['rootfs']['diff_ids'][0]}" in capsys.readouterr().out


def test_an_image_of_other_sources_is_told_before_anything_is_built(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = changed(specimen(), "src/entrypoint/launcher.py", "print('another launcher')\n")
    push_plain(shop.repository, replace(SignedImage(), tree=other).labels)
    built = rebuild(monkeypatch, {})
    with pytest.raises(ImageError, match="expected an image with the content key of these sources"):
        compare(shop)
    assert built == []


@pytest.mark.parametrize(("words", "cached"), [((), [False, False]), (("--once",), [True, False])])
def test_without_another_image_two_builds_are_compared_and_only_the_first_uses_a_cache(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], cached: list[bool]
) -> None:
    asked: list[bool] = []

    def build(*_: Any, cached: bool, **__: Any) -> Archive:
        asked.append(cached)
        return Archive(f"sha256:{'7' * 64}", {}, ())

    monkeypatch.setattr(reproducible, "build_from_nothing", build)
    monkeypatch.setattr(images, "find_keys", lambda *_: {})
    assert cli.run(["verify-reproducible", TORCH_ID, *words]) == 0
    assert asked == cached


def push_config(shop: Shop, config: bytes) -> None:
    for content in (b"a layer", config):
        put_blob(shop.repository, content)
    described = {"mediaType": CONFIG, "digest": make_digest(config), "size": len(config)}
    layer = {"mediaType": f"{LAYER}+gzip", "digest": make_digest(b"a layer"), "size": len(b"a layer")}
    shop.repository.put_manifest(SignedImage().tags[-1], make_manifest(described, [layer]))


@pytest.mark.parametrize("config", [b"{}", b"<html>", b"[1]", b'{"rootfs": {"diff_ids": []}, "config": null}'])
def test_what_is_no_image_of_dlc_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch, config: bytes) -> None:
    push_config(shop, config)
    built = rebuild(monkeypatch, {})
    with pytest.raises(RegistryError, match="expected the configuration of an image of dlc"):
        compare(shop)
    assert built == []


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ([TORCH_ID, "--against", "x"], UsageError, "expected REGISTRY/REPO:TAG"),
        (["*", "--against", "127.0.0.1:1/team/toy:1"], UsageError, "expected one image and no --once, found 2 images"),
        ([TORCH_ID, "--once", "--against", "127.0.0.1:1/team/toy:1"], UsageError, "expected one image and no --once"),
    ],
)  # fmt: skip
def test_what_is_wrong_on_the_command_line_is_told(
    shop: Shop, words: list[str], error: type[DlcError], said: str
) -> None:
    with pytest.raises(error, match=said):
        cli.run(["verify-reproducible", *words])
