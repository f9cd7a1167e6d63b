"""A built image as `docker save` writes it, and its layers one by one as a registry gets them.

Every engine saves, whatever store it has; what it keeps compressed is taken apart and compressed as all else.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlc.core.compression import Through, plain
from dlc.core.errors import ImageError
from dlc.engine.connection import Engine
from dlc.images.inspection.archive import Members, member_file, members, opened
from dlc.images.inspection.export import save
from dlc.images.push.compress import compressed
from dlc.images.push.registry.repository import KINDS, Manifest, digest_of

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
Descriptor = Mapping[str, Any]


@dataclass(frozen=True)
class Saved:
    """An image in an archive. `folder` takes its blobs, each under its digest in hex."""

    archive: tarfile.TarFile
    members: Members
    folder: Path

    @property
    def config(self) -> bytes:
        """The configuration, byte for byte."""
        return member_file(self.archive, self.members.config).read()

    def write_config(self) -> Descriptor:
        """The configuration as a blob, described."""
        data = self.config
        digest = digest_of(data)
        self.blob(digest).write_bytes(data)
        return {"mediaType": CONFIG, "digest": digest, "size": len(data)}

    def write_layer(self, member: str, diff_id: str, compression: str) -> Descriptor:
        """A layer as a compressed blob, described. Raises ImageError where it is not the one of the diff id."""
        content = Through(plain(member_file(self.archive, member)))
        made = compressed(content, self.folder, compression)
        if (found := f"sha256:{content.sha256.hexdigest()}") != diff_id:
            raise ImageError(
                f"{member} of the saved image: expected the layer {diff_id}, found {found}",
                "the engine's copy is damaged: docker image rm, and build it again",
            )
        return {
            "mediaType": f"{LAYER}+{compression}", "digest": f"sha256:{made.name}", "size": made.stat().st_size
        }  # fmt: skip

    def blob(self, digest: str) -> Path:
        """The file of what was written."""
        return self.folder / digest.removeprefix("sha256:")


@contextmanager
def saved(engine: Engine, ref: str, folder: Path) -> Iterator[Saved]:
    """The image in an empty folder, which needs room for it. Raises DiskError, ProcessError, ImageError."""
    path, blobs = folder / "image.tar", folder / "blobs"
    save(engine, ref, path)
    blobs.mkdir()
    with opened(path) as archive:
        found = members(path, archive)
    with tarfile.open(path, "r:") as archive:
        yield Saved(archive, found, blobs)


def manifest(config: Descriptor, layers: list[Descriptor]) -> Manifest:
    """The manifest of an image, with its keys in the order that BuildKit gives them. Pure."""
    content = {"schemaVersion": 2, "mediaType": KINDS[0], "config": config, "layers": layers}
    return Manifest(json.dumps(content, separators=(",", ":")).encode(), KINDS[0])
