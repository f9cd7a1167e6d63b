"""Reads an image from a tar, as `docker save` and BuildKit's OCI exporter write it: layers and every file in them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlc.core.errors import ImageError
from dlc.core.gzip import Counter, compress

# In a layer, `.wh.NAME` says that NAME of a lower layer is gone, `.wh..wh..opq` that all of its folder is.
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
BLOCK = 1 << 20
GZIP = b"\x1f\x8b"
KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
}


@dataclass(frozen=True)
class Entry:
    """One path of a layer. Two entries that are equal are the same bytes in the layer."""

    kind: str
    size: int  # bytes; 0 for all but files
    mode: int
    owner: str  # "0:0"
    modified: int  # seconds since 1970
    target: str  # of a link
    sha256: str  # of a file's content


@dataclass(frozen=True)
class Layer:
    """A layer, the command that made it, and its entries by path without a leading slash."""

    digest: str  # of the uncompressed layer, which the configuration lists as diff id
    command: str
    entries: Mapping[str, Entry]

    @property
    def bytes(self) -> int:
        """Of the content of its files."""
        return sum(entry.size for entry in self.entries.values())


@dataclass(frozen=True)
class Archive:
    """An image: digest of its manifest (empty in archives without one), its configuration, layers lowest first."""

    digest: str
    config: Mapping[str, Any]
    layers: tuple[Layer, ...]


def read(path: Path) -> Archive:
    """The image in an archive. Raises ImageError where there is none, or more than one."""
    with _opened(path) as tar:
        digest, config_name, layer_names = _members(path, tar)
        config = _json(tar, config_name)
        commands = [step.get("created_by", "") for step in config.get("history", ()) if not step.get("empty_layer")]
        commands += [""] * len(layer_names)
        layers = tuple(
            Layer(diff_id, command, dict(_entries(tar, name)))
            for diff_id, command, name in zip(config["rootfs"]["diff_ids"], commands, layer_names, strict=False)
        )
        return Archive(digest, config, layers)


def compressed_size(path: Path) -> int:
    """Bytes of all layers, compressed as a push compresses them. Raises ImageError as `read` does."""
    with _opened(path) as tar:
        _, _, layer_names = _members(path, tar)
        return sum(_compressed(tar, name) for name in dict.fromkeys(layer_names))


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:") as tar:
            yield tar
    except (tarfile.TarError, KeyError, json.JSONDecodeError) as error:
        raise ImageError(f"{path}: expected the archive of one image, found: {error}") from None


def _compressed(tar: tarfile.TarFile, name: str) -> int:
    member = tar.extractfile(name)
    if member is None:
        raise KeyError(f"{name} is no file")
    if member.read(len(GZIP)) == GZIP:
        return tar.getmember(name).size
    member.seek(0)
    counter = Counter()
    compress(member, counter)
    return counter.bytes


def _members(path: Path, tar: tarfile.TarFile) -> tuple[str, str, list[str]]:
    """The manifest's digest, and the members that hold configuration and layers; older engines write no index."""
    has_index = "index.json" in tar.getnames()
    manifests = _json(tar, "index.json")["manifests"] if has_index else _json(tar, "manifest.json")
    if len(manifests) != 1:
        raise ImageError(f"{path}: expected the archive of one image, found {len(manifests)} manifests")
    if not has_index:
        return "", manifests[0]["Config"], manifests[0]["Layers"]
    digest = manifests[0]["digest"]
    manifest = _json(tar, blob(digest))
    if "layers" not in manifest:
        raise ImageError(f"{path}: expected one manifest, found {manifest.get('mediaType')}")
    return digest, blob(manifest["config"]["digest"]), [blob(layer["digest"]) for layer in manifest["layers"]]


def blob(digest: str) -> str:
    """The path of a blob in an OCI layout."""
    return "blobs/" + digest.replace(":", "/")


def _json(tar: tarfile.TarFile, name: str) -> Any:
    member = tar.extractfile(name)
    return json.load(member) if member else {}


def _entries(tar: tarfile.TarFile, name: str) -> Iterator[tuple[str, Entry]]:
    """Every entry of a layer, gzipped or plain."""
    member = tar.extractfile(name)
    if member is None:
        raise KeyError(f"{name} is no file")
    with tarfile.open(fileobj=member, mode="r|*") as layer:
        for item in layer:
            yield item.name.removeprefix("./").strip("/"), _entry(layer, item)


def _entry(layer: tarfile.TarFile, item: tarfile.TarInfo) -> Entry:
    content = layer.extractfile(item) if item.isreg() else None
    digest = hashlib.sha256()
    while content and (block := content.read(BLOCK)):
        digest.update(block)
    return Entry(
        kind=KINDS.get(item.type, "device"),
        size=item.size if content else 0,
        mode=item.mode,
        owner=f"{item.uid}:{item.gid}",
        modified=int(item.mtime),
        target=item.linkname,
        sha256=digest.hexdigest() if content else "",
    )
