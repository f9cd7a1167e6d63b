"""archive and layers: archives of both shapes are read, and layers resolved as an engine does it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from dlc.core.errors import ImageError
from dlc.inspection import archive as archive_module
from dlc.inspection.archive import (
    Entry,
    Layer,
    blob_path,
    measure_compressed,
    read_archive,
    read_archives,
    resolve_layers,
)
from dlc.registry.layers import compress_layer


def tar_of(files: Mapping[str, bytes], modified: int = 0) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            item = tarfile.TarInfo(name)
            item.size, item.mtime = len(content), modified
            tar.addfile(item, io.BytesIO(content))
    return buffer.getvalue()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def oci_archive(path: Path, layers: list[bytes], *, zipped: bool = False) -> Path:
    """An OCI layout in a tar, its layers gzipped or not."""
    stored = [gzip.compress(layer) if zipped else layer for layer in layers]
    history = [
        {"created_by": "ENV A=1", "empty_layer": True},
        *({"created_by": f"RUN {n}"} for n in range(len(layers))),
    ]
    config = json.dumps({"rootfs": {"diff_ids": [digest_of(layer) for layer in layers]}, "history": history}).encode()
    manifest = json.dumps(
        {"config": {"digest": digest_of(config)}, "layers": [{"digest": digest_of(layer)} for layer in stored]}
    ).encode()
    index = json.dumps({"manifests": [{"digest": digest_of(manifest)}]}).encode()
    blobs = {blob_path(digest_of(content)): content for content in (*stored, config, manifest)}
    path.write_bytes(tar_of({**blobs, "index.json": index}))
    return path


def archive_of_two(path: Path, lower: bytes, upper: bytes, *, index: bool) -> list[str]:
    """An image and its child in one archive, in the form of a new or an old engine; their digests."""
    blobs: dict[str, bytes] = {}
    found, manifests = [], []
    for layers in ([lower], [lower, upper]):
        config = json.dumps({"rootfs": {"diff_ids": [digest_of(layer) for layer in layers]}}).encode()
        places = [blob_path(digest_of(layer)) for layer in layers]
        blobs |= {blob_path(digest_of(content)): content for content in (*layers, config)}
        manifest = {"config": {"digest": digest_of(config)}, "layers": [{"digest": digest_of(one)} for one in layers]}
        blobs[blob_path(digest_of(json.dumps(manifest).encode()))] = json.dumps(manifest).encode()
        # A new engine names an image by its manifest or by its configuration, an old one by its configuration.
        found.append(digest_of(config))
        digest = digest_of(json.dumps(manifest).encode())
        manifests.append({"digest": digest} if index else {"Config": blob_path(digest_of(config)), "Layers": places})
    named = {"index.json": {"manifests": manifests}} if index else {"manifest.json": manifests}
    path.write_bytes(tar_of({**blobs, **{name: json.dumps(value).encode() for name, value in named.items()}}))
    return found


@pytest.mark.parametrize("index", [True, False], ids=["layout", "old engine"])
def test_a_layer_of_two_images_is_read_once_for_both(
    index: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_entries = archive_module._read_entries

    def count(tar: tarfile.TarFile, name: str) -> Iterator[tuple[str, Entry]]:
        read.append(name)
        return read_entries(tar, name)

    monkeypatch.setattr(archive_module, "_read_entries", count)
    digests = archive_of_two(tmp_path / "a.tar", tar_of({"a": b"a"}), tar_of({"b": b"b"}), index=index)
    image, child = read_archives(tmp_path / "a.tar", digests)
    assert [[*layer.entries] for layer in image.layers] == [["a"]]
    assert [[*layer.entries] for layer in child.layers] == [["a"], ["b"]]
    assert len(read) == 2


def test_an_image_that_is_not_in_an_archive_of_several_is_named(tmp_path: Path) -> None:
    archive_of_two(tmp_path / "a.tar", tar_of({"a": b"a"}), tar_of({"b": b"b"}), index=True)
    with pytest.raises(ImageError, match="expected the image sha256:0, found sha256:"):
        read_archives(tmp_path / "a.tar", ["sha256:0"])


def layer(**sizes: int) -> Layer:
    """A layer of files by path, with two underscores for a slash and `W` for a whiteout's start."""
    paths = {name.replace("__", "/").replace("W", ".wh."): size for name, size in sizes.items()}
    return Layer("", "", {path: Entry("file", size, 0o644, "0:0", 0, "", "") for path, size in paths.items()})


def test_who_waits_for_compressed_sizes_is_told_which_layer_is_begun(tmp_path: Path) -> None:
    begun: list[tuple[int, int]] = []
    path = oci_archive(tmp_path / "a.tar", [tar_of({"a": b"a"}), tar_of({"b": b"b"})])
    measure_compressed(path, lambda number, count: begun.append((number, count)))
    assert begun == [(1, 2), (2, 2)]


@pytest.mark.parametrize("zipped", [False, True])
def test_oci_archive_gives_digest_layers_commands_and_entries(tmp_path: Path, zipped: bool) -> None:
    path = oci_archive(tmp_path / "a.tar", [tar_of({"etc/a": b"abc"}, modified=7), tar_of({"b": b""})], zipped=zipped)
    archive = read_archive(path)
    assert archive.digest.startswith("sha256:")
    assert [layer.command for layer in archive.layers] == ["RUN 0", "RUN 1"]
    assert archive.layers[0].digest == digest_of(tar_of({"etc/a": b"abc"}, modified=7))
    assert archive.layers[0].entries["etc/a"] == Entry(
        "file", 3, 0o644, "0:0", 7, "", hashlib.sha256(b"abc").hexdigest()
    )
    assert [layer.bytes for layer in archive.layers] == [3, 0]


def test_the_compressed_size_is_what_a_push_sends_and_equal_layers_count_once(tmp_path: Path) -> None:
    layer = tar_of({"etc/a": b"a" * 1_000_000})
    plain = measure_compressed(oci_archive(tmp_path / "a.tar", [layer, layer, tar_of({})]))
    sent = [len(made(tmp_path, content)) for content in (layer, tar_of({}))]
    assert plain == sum(sent)
    assert plain < 20_000
    zipped = measure_compressed(oci_archive(tmp_path / "b.tar", [layer], zipped=True))
    assert zipped == sent[0]


def made(folder: Path, layer: bytes) -> bytes:
    return compress_layer(io.BytesIO(layer), folder, "gzip").read_bytes()


def test_archive_of_an_older_engine_is_read_through_its_manifest(tmp_path: Path) -> None:
    config = json.dumps({"rootfs": {"diff_ids": ["sha256:1"]}}).encode()
    manifest = json.dumps([{"Config": "c.json", "Layers": ["1/layer.tar"]}]).encode()
    members = {"c.json": config, "1/layer.tar": tar_of({"./a": b"x"}), "manifest.json": manifest}
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    archive = read_archive(tmp_path / "a.tar")
    assert archive.digest == digest_of(config)
    assert list(archive.layers[0].entries) == ["a"]


@pytest.mark.parametrize("reads", [read_archive, measure_compressed])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no tar",
        tar_of({"index.json": b'{"manifests": [1, 2]}'}),
        tar_of({"manifest.json": b"[1, 2]"}),
        tar_of({"a": b""}),
    ],
)
def test_what_is_no_archive_of_one_image_is_an_error(
    tmp_path: Path, content: bytes, reads: Callable[[Path], object]
) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(ImageError, match="expected the archive of one image"):
        reads(tmp_path / "a.tar")


def test_a_path_of_two_layers_is_hidden_once_and_the_upper_one_is_seen() -> None:
    files, hidden = resolve_layers([layer(a=10, b=1), layer(a=20)])
    assert files["a"].size == 20
    assert [(item.path, item.bytes, item.layer, item.by, item.deleted) for item in hidden] == [("a", 10, 0, 1, False)]


def test_a_whiteout_deletes_a_file_or_a_whole_folder_of_lower_layers() -> None:
    files, hidden = resolve_layers([layer(a=1, d__x=2, d__y=3, dd=4), layer(Wa=0, Wd=0)])
    assert set(files) == {"dd"}
    assert sorted((item.path, item.bytes) for item in hidden) == [("a", 1), ("d/x", 2), ("d/y", 3)]
    assert all(item.deleted for item in hidden)


def test_an_opaque_folder_hides_what_was_in_it_and_keeps_what_the_same_layer_writes() -> None:
    files, hidden = resolve_layers([layer(d__x=2), layer(d__new=5, **{"d__W.wh..opq": 0})])
    assert set(files) == {"d/new"}
    assert [item.path for item in hidden] == ["d/x"]


def test_files_without_bytes_are_no_waste() -> None:
    assert resolve_layers([layer(a=0), layer(a=0)])[1] == ()
