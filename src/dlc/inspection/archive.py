"""An image as a tar: exported from the engine, its layers, every file in them, and the files that are never seen."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dlc.core.atomic_files import scratch_folder
from dlc.core.compression import Through, compress_gzip, open_plain
from dlc.core.errors import DiskError, ImageError, ProcessError
from dlc.engine.docker_client import Engine
from dlc.image_build.buildkit_log import ENGINE_FULL

# In a layer, `.wh.NAME` says that NAME of a lower layer is gone, `.wh..wh..opq` that all of its folder is.
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
BLOCK = 1 << 20
KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
}
SAVE_SECONDS = 1800.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """One path of a layer. Two entries that are equal are the same bytes in the layer."""

    kind: str
    # Bytes; 0 for all but files.
    size: int
    mode: int
    # As in "0:0".
    owner: str
    # Seconds since 1970.
    modified: int
    # The target of a link.
    target: str
    # The digest of a file's content.
    sha256: str


@dataclass(frozen=True)
class Layer:
    """A layer, the command that made it, and its entries by path without a leading slash."""

    # Of the uncompressed layer, which the configuration lists as diff id.
    digest: str
    command: str
    entries: Mapping[str, Entry]

    @property
    def bytes(self) -> int:
        """Return the bytes of its files' content."""
        return sum(entry.size for entry in self.entries.values())


@dataclass(frozen=True)
class Members:
    """What an archive names: the image's digest, and the members that hold its configuration and its layers."""

    # Of the manifest; of the configuration in archives of older engines, which have no manifest.
    digest: str
    config: str
    # The lowest layer first.
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """An image: the digest of its manifest or configuration, its configuration, its layers, lowest first."""

    digest: str
    config: Mapping[str, Any]
    layers: tuple[Layer, ...]


def read_archive(path: Path) -> Archive:
    """Read the image in an archive. Raises ImageError if there is none, or more than one."""
    with open_archive(path) as tar:
        return _read_image(tar, _find_only(path, tar), {})


def read_archives(path: Path, digests: Sequence[str]) -> list[Archive]:
    """Read these images of an archive, by the digest of manifest or configuration. A layer of several is read once.

    Raises ImageError if one of the images is not in it.
    """
    with open_archive(path) as tar:
        found = [_read_manifest(path, tar, entry) for entry in _list_manifests(tar)]
        entries: dict[str, Mapping[str, Entry]] = {}
        return [_read_image(tar, _pick_image(found, digest, path), entries) for digest in digests]


def _pick_image(found: Sequence[Members], digest: str, path: Path) -> Members:
    wanted = (digest, digest.partition(":")[2])
    for members in found:
        if members.digest == digest or members.config.rpartition("/")[2].removesuffix(".json") in wanted:
            return members
    raise ImageError(f"{path}: expected the image {digest}, found {', '.join(each.digest for each in found)}")


def _read_image(tar: tarfile.TarFile, found: Members, known: dict[str, Mapping[str, Entry]]) -> Archive:
    """Read an image. `known`: member -> the entries of a layer that is read already; new ones are added."""
    _require_members(tar, found)
    config = _read_json(tar, found.config)
    commands = [step.get("created_by", "") for step in config.get("history", ()) if not step.get("empty_layer")]
    commands += [""] * len(found.layers)
    for name in found.layers:
        if name not in known:
            known[name] = dict(_read_entries(tar, name))
    layers = tuple(
        Layer(diff_id, command, known[name])
        for diff_id, command, name in zip(config["rootfs"]["diff_ids"], commands, found.layers, strict=False)
    )
    return Archive(found.digest, config, layers)


def measure_compressed(path: Path, on_layer: Callable[[int, int], None] = lambda number, count: None) -> int:
    """Return the bytes of all layers, compressed as a push compresses them.

    `on_layer` is told which of how many is begun.

    Raises ImageError as `read` does.
    """
    total = 0
    with open_archive(path) as tar:
        layers = tuple(dict.fromkeys(read_members(path, tar).layers))
        for number, name in enumerate(layers, 1):
            on_layer(number, len(layers))
            total += _measure_member(tar, name)
    return total


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open the archive for the block. What it lacks is an ImageError, in the block too."""
    try:
        with tarfile.open(path, "r:") as tar:
            yield tar
    except (tarfile.TarError, KeyError, json.JSONDecodeError) as error:
        raise ImageError(f"{path}: expected the archive of one image, found: {error}") from None


def read_members(path: Path, tar: tarfile.TarFile) -> Members:
    """Read the names of an OCI layout, or of what older engines write, which has no index.

    Raises ImageError if it is neither, KeyError if a member is missing.
    """
    found = _find_only(path, tar)
    _require_members(tar, found)
    return found


def _find_only(path: Path, tar: tarfile.TarFile) -> Members:
    manifests = _list_manifests(tar)
    if len(manifests) != 1:
        raise ImageError(f"{path}: expected the archive of one image, found {len(manifests)} manifests")
    return _read_manifest(path, tar, manifests[0])


def _require_members(tar: tarfile.TarFile, found: Members) -> None:
    for name in (found.config, *found.layers):
        open_member(tar, name)


def _list_manifests(tar: tarfile.TarFile) -> list[Any]:
    name = "index.json" if "index.json" in tar.getnames() else "manifest.json"
    found = _read_json(tar, name)
    return list(found["manifests"] if name == "index.json" else found)


def _read_manifest(path: Path, tar: tarfile.TarFile, entry: Mapping[str, Any]) -> Members:
    """Read what an entry of an index, or of the list of an older engine, names."""
    if "digest" not in entry:
        digest = hashlib.sha256(open_member(tar, entry["Config"]).read()).hexdigest()
        return Members(f"sha256:{digest}", entry["Config"], tuple(entry["Layers"]))
    digest = entry["digest"]
    manifest = _read_json(tar, blob_path(digest))
    if "layers" not in manifest:
        raise ImageError(f"{path}: expected one manifest, found {manifest.get('mediaType')}")
    layers = tuple(blob_path(layer["digest"]) for layer in manifest["layers"])
    return Members(digest, blob_path(manifest["config"]["digest"]), layers)


def _measure_member(tar: tarfile.TarFile, name: str) -> int:
    counter = Through()
    compress_gzip(open_plain(open_member(tar, name)), counter)
    return counter.bytes


def open_member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    """Open a member to read from. Raises KeyError if there is no such member."""
    member = tar.extractfile(name)
    if member is None:
        raise KeyError(f"{name} is no file")
    return member


def blob_path(digest: str) -> str:
    """Return the path of a blob in an OCI layout."""
    return "blobs/" + digest.replace(":", "/")


def _read_json(tar: tarfile.TarFile, name: str) -> Any:
    return json.load(open_member(tar, name))


def _read_entries(tar: tarfile.TarFile, name: str) -> Iterator[tuple[str, Entry]]:
    """Yield every entry of a layer, gzipped or plain."""
    with tarfile.open(fileobj=open_plain(open_member(tar, name)), mode="r|") as layer:
        for item in layer:
            yield item.name.removeprefix("./").strip("/"), _read_entry(layer, item)


def _read_entry(layer: tarfile.TarFile, item: tarfile.TarInfo) -> Entry:
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


@dataclass(frozen=True)
class Hidden:
    """A file that a higher layer writes again or deletes: its bytes are stored and never read."""

    path: str
    bytes: int
    # Index of the layer that holds it, from the lowest.
    layer: int
    # Index of the layer that hides it.
    by: int
    # Else it is written again.
    deleted: bool


def resolve_layers(layers: Sequence[Layer]) -> tuple[Mapping[str, Entry], tuple[Hidden, ...]]:
    """Return the files that a container sees, by path, and those that it does not."""
    seen: dict[str, tuple[int, Entry]] = {}
    hidden: list[Hidden] = []
    for index, layer in enumerate(layers):
        # Deletions concern lower layers, whatever their place in this one.
        for path in layer.entries:
            for gone in _list_deleted(path, seen):
                hidden.append(_make_hidden(gone, seen.pop(gone), index, deleted=True))
        for path, entry in layer.entries.items():
            if path.rpartition("/")[2].startswith(WHITEOUT):
                continue
            if path in seen:
                hidden.append(_make_hidden(path, seen[path], index, deleted=False))
            seen[path] = (index, entry)
    files = {path: entry for path, (_, entry) in seen.items()}
    return files, tuple(item for item in hidden if item.bytes)


def _list_deleted(path: str, seen: Mapping[str, tuple[int, Entry]]) -> list[str]:
    """List paths of lower layers that this entry deletes: none unless it is a whiteout."""
    folder, slash, name = path.rpartition("/")
    if not name.startswith(WHITEOUT):
        return []
    target = folder if name == OPAQUE else folder + slash + name.removeprefix(WHITEOUT)
    below = [known for known in seen if known.startswith(f"{target}/")]
    return below if name == OPAQUE else [*below, *([target] if target in seen else [])]


def _make_hidden(path: str, place: tuple[int, Entry], by: int, *, deleted: bool) -> Hidden:
    return Hidden(path, place[1].size, place[0], by, deleted)


def export_archive(engine: Engine, ref: str, say: Say = lambda _: None) -> Archive:
    """Read layers and files of an image that the engine has. `say` is told what is done. Needs its size in TMPDIR."""
    with save_to_scratch(engine, [ref], say) as path:
        return read_archive(path)


def export_measured(engine: Engine, ref: str, say: Say = lambda _: None) -> tuple[Archive, int]:
    """Do the same, and return the bytes of its layers as a push sends them too."""
    with save_to_scratch(engine, [ref], say) as path:
        found = read_archive(path)
        return found, measure_compressed(
            path, lambda number, count: say(f"{ref}: compresses layer {number} of {count}")
        )


@contextmanager
def save_to_scratch(engine: Engine, refs: Sequence[str], say: Say) -> Iterator[Path]:
    """Save images into one archive, which has a layer of several once, for the block. Needs their size in TMPDIR."""
    names = " and ".join(refs)
    with scratch_folder("dlc-image-") as folder:
        path = folder / "image.tar"
        say(f"{names}: the engine saves {'them' if len(refs) > 1 else 'it'}")
        save_image(engine, path, *refs)
        say(f"{names}: reads the files")
        yield path


def save_image(engine: Engine, path: Path, *refs: str) -> None:
    """Write the archive of these images. Raises DiskError if the disk is full, ProcessError if the engine fails."""
    try:
        engine.docker(
            "save", "--output", str(path), *refs, timeout=SAVE_SECONDS, grace=0.0
        )  # what it wrote is thrown away
    except ProcessError as error:
        if "no space left on device" not in error.message:
            raise
        # Else it was the engine's own disk.
        here = str(path.parent) in error.message.partition("\n")[2]
        remedy = f"free space in {path.parent.parent}, or name a larger folder in TMPDIR" if here else ENGINE_FULL
        raise DiskError(error.message, remedy) from None
