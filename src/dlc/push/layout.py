"""Takes a built image out of the engine as an OCI layout with compressed layers, by BuildKit and without a change.

A recipe of one line, `FROM` the image, adds no layer and keeps the configuration byte for byte: its digest stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlc.build.progress import Step
from dlc.build.run import run_bake
from dlc.core.errors import DiskError
from dlc.engine.connection import Engine
from dlc.push.registry.repository import KINDS, Manifest

COMPRESSIONS = ("gzip", "zstd")


@dataclass(frozen=True)
class Layout:
    """A folder with an image: its manifest, and the blobs that the manifest names."""

    folder: Path
    manifest: Manifest

    def blobs(self) -> Iterator[tuple[str, Path]]:
        """Digest and file of each layer, and of the configuration last."""
        content = self.manifest.content
        for descriptor in (*content["layers"], content["config"]):
            yield descriptor["digest"], self._path(descriptor["digest"])

    def config(self) -> bytes:
        """The configuration's bytes."""
        return self._path(self.manifest.content["config"]["digest"]).read_bytes()

    def _path(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")


def export(
    engine: Engine, ref: str, created: int, compression: str, folder: Path, log: Path,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Layout:  # fmt: skip
    """Write the image into an empty folder, which takes its compressed size. `created` is its time in seconds.

    BuildKit keeps the compressed layers too, so a second time only copies. Raises as `dlc.build.run.build` does.
    """
    (folder / "context").mkdir()
    try:
        run_bake(json.dumps(bake_file(ref, created, compression, folder)), engine, log, on_step)
    except DiskError as error:
        if str(folder) not in error.message:
            raise  # it was the engine's own disk
        raise DiskError(error.message, f"free space in {folder.parent}, or name a larger folder in TMPDIR") from None
    return read(folder / "image")


def bake_file(ref: str, created: int, compression: str, folder: Path) -> Mapping[str, Any]:
    """The bake file of such an export. Pure."""
    output = f"type=oci,tar=false,dest={folder / 'image'},compression={compression},force-compression=true"
    target = {
        "context": str(folder / "context"),
        "contexts": {"built": f"docker-image://{ref}"},
        "dockerfile-inline": "FROM built\n",
        "args": {"SOURCE_DATE_EPOCH": str(created)},
        "output": [output],
    }
    return {"group": {"default": {"targets": ["image"]}}, "target": {"image": target}}


def read(folder: Path) -> Layout:
    """The one image of a layout."""
    index = json.loads((folder / "index.json").read_text())
    [entry] = [entry for entry in index["manifests"] if entry["mediaType"] in KINDS]
    data = (folder / "blobs" / entry["digest"].replace(":", "/")).read_bytes()
    return Layout(folder, Manifest(data, entry["mediaType"]))
