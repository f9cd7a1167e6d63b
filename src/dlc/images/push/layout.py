"""Exports a built image from the engine, by BuildKit, as an OCI layout: a folder of blobs.

A Dockerfile of one line, `FROM` the image, adds no layer and keeps the configuration byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlc.build.progress import Step
from dlc.build.run import run_bake
from dlc.core.errors import DiskError
from dlc.engine.connection import Engine
from dlc.images.inspection.archive import blob
from dlc.images.push.registry.repository import KINDS, Manifest

# Of layers in a registry -> in the layout. BuildKit's gzip runs on one core, so gzip is left to `push.compress`.
COMPRESSIONS = {"gzip": "uncompressed", "zstd": "zstd"}

EXPORT = "org.dlc.export"  # an annotation of exported manifests, which is not pushed


@dataclass(frozen=True)
class Layout:
    """A folder with an image: its manifest, and the blobs that the manifest names."""

    folder: Path
    manifest: Manifest

    def blob(self, digest: str) -> Path:
        """The file of a layer or of the configuration."""
        return self.folder / blob(digest)

    def config(self) -> bytes:
        """The configuration's bytes."""
        return self.blob(self.manifest.content["config"]["digest"]).read_bytes()


def export(
    engine: Engine, ref: str, created: int, compression: str, folder: Path, log: Path,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Layout:  # fmt: skip
    """Write the image into an empty folder. `created` is its time in seconds; layers are as COMPRESSIONS has it.

    Raises as `dlc.build.run.build` does.
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
    output = (
        f"type=oci,tar=false,dest={folder / 'image'},compression={COMPRESSIONS[compression]},force-compression=true"
    )
    # BuildKit deletes a manifest at the end of its export. Each export has its own, so that none deletes another's.
    output += f",annotation.{EXPORT}={folder.name}"
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
    data = (folder / blob(entry["digest"])).read_bytes()
    return Layout(folder, Manifest(data, entry["mediaType"]))
