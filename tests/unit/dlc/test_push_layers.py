"""push.compress, push.upload, push.workspace: equal layers become equal gzip, and are sent some at a time."""

from __future__ import annotations

import gzip as reference
import hashlib
import json
import os
import random
import threading
from pathlib import Path

import pytest
from scripted_server import Asked, Reply, serving

from dlc.core.errors import DiskError, RegistryError
from dlc.core.gzip import BLOCK
from dlc.images.push import compress
from dlc.images.push.layout import Layout
from dlc.images.push.registry.repository import KINDS, Manifest, Repository
from dlc.images.push.registry.session import Session
from dlc.images.push.run import _upload
from dlc.images.push.upload import Uploads
from dlc.images.push.workspace import PREFIX, workspace

TAR = "application/vnd.oci.image.layer.v1.tar"


def content(size: int) -> bytes:
    """Bytes that compress to about a half, the same every time."""
    return bytes(random.Random(size).choices(range(16), k=size))


def layer(folder: Path, data: bytes) -> Path:
    path = folder / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return path


def quiet(_: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("size", [0, 1, BLOCK, 3 * BLOCK + 7])
def test_layer_is_the_same_gzip_with_any_number_of_threads(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, names = content(size), set()
    for threads in (1, 2, 7):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, count=threads: set(range(count)))
        made = compress.gzip(layer(tmp_path, data), tmp_path)
        assert reference.decompress(made.read_bytes()) == data
        assert made.name == hashlib.sha256(made.read_bytes()).hexdigest()
        names.add(made.name)
    assert len(names) == 1


def test_gzip_has_neither_a_time_nor_a_name_in_it(tmp_path: Path) -> None:
    header = compress.gzip(layer(tmp_path, b"layer"), tmp_path).read_bytes()[:8]
    assert header == b"\x1f\x8b\x08" + bytes(5)  # no flags, so no name; time 0


def test_layer_is_gone_once_it_is_compressed(tmp_path: Path) -> None:
    made = compress.gzip(layer(tmp_path, b"layer"), tmp_path)
    assert list(tmp_path.iterdir()) == [made]


def test_full_disk_during_compression_names_the_folder_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layer(tmp_path, content(1000))
    monkeypatch.setattr(compress, "_write", lambda layer, _: compress._Hashing(full).write(layer.read_bytes()))
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(DiskError) as caught:
        compress.gzip(path, tmp_path)
    assert "TMPDIR" in caught.value.remedy


def test_manifest_names_the_compressed_layers_in_their_order_and_the_same_configuration(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs/sha256"
    blobs.mkdir(parents=True)
    made = [layer(blobs, content(size)) for size in (4000, 10)]
    config = layer(blobs, b'{"rootfs": {}}')
    described = [{"mediaType": TAR, "digest": f"sha256:{path.name}", "size": 1} for path in made]
    described.append(described[0])  # two steps can leave equal layers
    exported = {"schemaVersion": 2, "layers": described, "config": {"digest": f"sha256:{config.name}", "size": 14},
                "annotations": {"org.dlc.export": "dlc-push-x"}}  # fmt: skip
    layout = Layout(tmp_path, Manifest(json.dumps(exported).encode(), KINDS[0]))
    with serving(registry) as server:
        manifest, sent = _upload(layout, Repository(Session(server.url, "toy"), "toy"), quiet)
    put = {asked.path.rpartition("sha256")[2][3:]: asked.body for asked in server.asked if "digest=" in asked.path}
    assert "annotations" not in manifest.content
    assert manifest.content["config"] == exported["config"]
    assert [found["mediaType"] for found in manifest.content["layers"]] == [f"{TAR}+gzip"] * 3
    bodies = [put[found["digest"].removeprefix("sha256:")] for found in manifest.content["layers"]]
    assert [reference.decompress(body) for body in bodies] == [content(4000), content(10), content(4000)]
    assert [found["size"] for found in manifest.content["layers"]] == [len(body) for body in bodies]
    assert sent == sum(map(len, put.values()))


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
    with pytest.raises(DiskError, match=r"expected 1500000\.0 GB of free space") as caught, workspace(10**15):
        pass
    assert "TMPDIR" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_killed_push_is_removed_by_the_next_and_that_of_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = tmp_path / f"{PREFIX}killed"
    killed.mkdir()
    (killed / "lock").touch()
    with workspace(1) as running, workspace(1) as second:
        assert sorted(tmp_path.iterdir()) == sorted([running, second])
    assert list(tmp_path.iterdir()) == []
