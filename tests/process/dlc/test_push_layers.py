"""registry.compress, push.upload, push.workspace: equal layers become equal bytes, and are sent some at a time."""

from __future__ import annotations

import gzip as reference
import hashlib
import io
import json
import os
import random
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from scripted_server import Asked, Reply, serving

from dlc.core.compression import BLOCK_BYTES, COMPRESSIONS, open_plain
from dlc.core.errors import DiskError, ImageError, RegistryError
from dlc.inspection.archive import Members
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository
from dlc.registry.layers import DRAFT, Saved, Uploads, compress_layer
from dlc.registry.push import WORKSPACE_PREFIX, _upload_image, open_workspace


def content(size: int) -> bytes:
    """Bytes that compress to about a half, the same every time."""
    return bytes(random.Random(size).choices(range(16), k=size))


def layer(folder: Path, data: bytes) -> Path:
    path = folder / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return path


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 7])
def test_layer_is_compressed_to_the_same_bytes_with_any_number_of_threads(
    size: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, names = content(size), set()
    for threads in (1, 2, 7):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, count=threads: set(range(count)))
        made = compress_layer(io.BytesIO(data), tmp_path, kind)
        assert open_plain(io.BytesIO(made.read_bytes())).read() == data
        assert made.name == hashlib.sha256(made.read_bytes()).hexdigest()
        names.add(made.name)
    assert len(names) == 1


def test_gzip_has_neither_a_time_nor_a_name_in_it(tmp_path: Path) -> None:
    header = compress_layer(io.BytesIO(b"layer"), tmp_path, "gzip").read_bytes()[:8]
    assert header == b"\x1f\x8b\x08" + bytes(5)  # no flags, so no name; time 0


def test_full_disk_during_compression_names_the_folder_to_change(tmp_path: Path) -> None:
    (tmp_path / DRAFT).symlink_to("/dev/full")
    with pytest.raises(DiskError) as caught:
        compress_layer(io.BytesIO(content(1 << 20)), tmp_path, "gzip")
    assert "TMPDIR" in caught.value.remedy


LAYERS = [content(4000), content(10), content(4000)]  # two steps can leave equal layers


@contextmanager
def image(folder: Path, layers: list[bytes], stored: list[bytes]) -> Iterator[Saved]:
    """What an engine saves: a configuration and layers, `stored` as it keeps them."""
    digests = [f"sha256:{hashlib.sha256(own).hexdigest()}" for own in layers]
    members = {f"{number}/layer.tar": own for number, own in enumerate(stored)}
    named = Members("", "c.json", tuple(members))
    with tarfile.open(folder / "a.tar", "w") as tar:
        for name, data in {"c.json": json.dumps({"rootfs": {"diff_ids": digests}}).encode(), **members}.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            tar.addfile(item, io.BytesIO(data))
    (folder / "blobs").mkdir()
    with tarfile.open(folder / "a.tar", "r:") as tar:
        yield Saved(tar, named, folder / "blobs")


@pytest.mark.parametrize("keeps", ["plain", *COMPRESSIONS])
@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_manifest_names_the_compressed_layers_in_their_order_whatever_the_engine_keeps(
    kind: str, keeps: str, tmp_path: Path
) -> None:
    keep = {"plain": bytes, "gzip": reference.compress, "zstd": zstandard.compress}[keeps]
    with serving(registry) as server, image(tmp_path, LAYERS, [keep(own) for own in LAYERS]) as saved:
        manifest, sent = _upload_image(saved, Repository(Session(server.url, "toy"), "toy"), kind, quiet)
        config = saved.config
    put = {asked.path.rpartition("sha256")[2][3:]: asked.body for asked in server.asked if "digest=" in asked.path}
    assert put[manifest.content["config"]["digest"].removeprefix("sha256:")] == config
    layers = manifest.content["layers"]
    assert [found["mediaType"] for found in layers] == [f"application/vnd.oci.image.layer.v1.tar+{kind}"] * 3
    bodies = [put[found["digest"].removeprefix("sha256:")] for found in layers]
    assert [open_plain(io.BytesIO(body)).read() for body in bodies] == LAYERS
    assert [found["size"] for found in layers] == [len(body) for body in bodies]
    assert sent == sum(map(len, put.values()))


def test_a_layer_that_the_engine_keeps_damaged_is_not_sent(tmp_path: Path) -> None:
    stored = [LAYERS[0], b"damaged", LAYERS[2]]
    wanted = r"1/layer\.tar of the saved image: expected the layer sha256"
    with image(tmp_path, LAYERS, stored) as saved, serving(registry) as server, pytest.raises(ImageError, match=wanted):
        _upload_image(saved, Repository(Session(server.url, "toy"), "toy"), "gzip", quiet)
    assert not [asked for asked in server.asked if "manifests" in asked.path]


def registry(asked: Asked) -> Reply:
    """One that has nothing yet and takes everything."""
    if asked.method == "HEAD":
        return Reply(404)
    return Reply(202, {"Location": "/up"}) if asked.method == "POST" else Reply(201)


def sending(url: str, files: list[Path]) -> Uploads:
    uploads = Uploads(Repository(Session(url, "toy"), "toy", sleep=lambda _: None), quiet)
    for path in files:
        uploads.add(f"sha256:{path.name}", path)
    return uploads


def test_blobs_are_sent_beside_each_other(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=60)

    def answer(asked: Asked) -> Reply:
        if asked.method == "PUT":
            together.wait()
        return registry(asked)

    files = [layer(tmp_path, content(size)) for size in range(1, 5)]
    with serving(answer) as server:
        uploads = sending(server.url, files)
        uploads.finish()
    assert uploads.sent == 10


def test_what_the_repository_has_is_not_sent(tmp_path: Path) -> None:
    with serving(lambda _: Reply(200, {"Content-Length": "5"})) as server:
        uploads = sending(server.url, [layer(tmp_path, b"12345")])
        uploads.finish()
    assert uploads.sent == 0
    assert [asked.method for asked in server.asked] == ["HEAD"]


def beside(server: str, name: str = "pytorch") -> Repository:
    """A repository beside one that may have the same layers."""
    other = (name, Session(server, "toy", also_read=name))
    return Repository(Session(server, "toy"), "toy", sleep=lambda _: None, beside=[other])


def test_a_layer_that_another_repository_of_the_registry_has_is_not_sent(tmp_path: Path) -> None:
    path = layer(tmp_path, b"12345")

    def answer(asked: Asked) -> Reply:
        if "mount=" in asked.path:
            return Reply(201)
        mounted = any("mount=" in earlier.path for earlier in server.asked)
        return Reply(200, {"Content-Length": "5"}) if mounted else Reply(404)

    with serving(answer) as server:
        uploads = Uploads(beside(server.url), quiet)
        uploads.add(f"sha256:{path.name}", path)
        uploads.finish()
    assert uploads.sent == 0
    [mount] = [asked.path for asked in server.asked if asked.method == "POST"]
    assert mount == f"/v2/toy/blobs/uploads/?mount=sha256%3A{path.name}&from=pytorch"


@pytest.mark.parametrize("refusal", [202, 400, 403, 404, 405])
def test_a_layer_that_a_registry_does_not_take_from_there_is_sent(refusal: int, tmp_path: Path) -> None:
    path = layer(tmp_path, b"12345")

    def answer(asked: Asked) -> Reply:
        return Reply(refusal, {"Location": "/other"}) if "mount=" in asked.path else registry(asked)

    with serving(answer) as server:
        uploads = Uploads(beside(server.url), quiet)
        uploads.add(f"sha256:{path.name}", path)
        uploads.finish()
    assert uploads.sent == 5
    assert [asked.body for asked in server.asked if asked.method == "PUT"] == [b"12345"]


def test_file_that_is_gone_is_told_at_once_and_not_as_a_broken_connection(tmp_path: Path) -> None:
    path = layer(tmp_path, b"layer")
    with serving(registry) as server:
        client = Repository(Session(server.url, "toy"), "toy", sleep=lambda _: pytest.fail("it is tried again"))
        path.unlink()
        with pytest.raises(FileNotFoundError):
            client.upload(path, f"sha256:{path.name}")


def test_first_failure_ends_the_push_while_another_blob_still_hangs(tmp_path: Path) -> None:
    bad = layer(tmp_path, b"bad")
    hangs = threading.Event()

    def answer(asked: Asked) -> Reply:
        if asked.method == "PUT" and bad.name not in asked.path:
            hangs.wait(60)
        return Reply(413) if asked.method == "PUT" else registry(asked)

    files = [layer(tmp_path, b"slow"), bad]
    with serving(answer) as server:
        uploads = sending(server.url, files)
        with pytest.raises(RegistryError, match="status 413"):
            uploads.finish()
        with pytest.raises(RegistryError, match="status 413"):
            uploads.add("sha256:later", bad)
        hangs.set()


def test_room_is_asked_for_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(DiskError, match=r"expected 1500000\.00 GB of free space") as caught, open_workspace(10**15):
        pass
    assert "TMPDIR" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_killed_push_is_removed_by_the_next_and_that_of_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = tmp_path / f"{WORKSPACE_PREFIX}killed"
    killed.mkdir()
    (killed / "lock").touch()
    with open_workspace(1) as running, open_workspace(1) as second:
        assert sorted(tmp_path.iterdir()) == sorted([running, second])
    assert list(tmp_path.iterdir()) == []
