"""The layers of a built image: saved from the engine, compressed on all cores, and uploaded several at a time.

Every engine saves, whatever store it has; what it keeps compressed is taken apart and compressed as all else. Equal
layers become equal bytes, with any number of threads. gzip is the default, because every engine reads it; SageMaker's
hosts and old engines may not read zstd.
"""

from __future__ import annotations

import errno
import queue
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dlc.core.compression import COMPRESSIONS, Source, Through, open_plain
from dlc.core.errors import DiskError, ImageError
from dlc.core.text import format_bytes
from dlc.engine.docker_client import Engine
from dlc.inspection.archive import Members, open_archive, open_member, read_members, save_image
from dlc.registry.client.repository import CONFIG, Descriptor, Repository, describe_blob, make_digest

LAYER = "application/vnd.oci.image.layer.v1.tar"
REMEDY = "free space, or name another folder in TMPDIR"
DRAFT = ".draft"
AT_A_TIME = 4


@dataclass(frozen=True)
class Saved:
    """An image in an archive. `folder` takes its blobs, each under its digest in hex."""

    archive: tarfile.TarFile
    members: Members
    folder: Path

    @property
    def config(self) -> bytes:
        """Return the configuration, byte for byte."""
        return open_member(self.archive, self.members.config).read()

    def write_config(self) -> Descriptor:
        """Write the configuration as a blob; return its descriptor."""
        data = self.config
        self.blob(make_digest(data)).write_bytes(data)
        return describe_blob(CONFIG, data)

    def write_layer(self, member: str, diff_id: str, compression: str) -> Descriptor:
        """Write a layer as a compressed blob; return its descriptor.

        Raises ImageError if it does not have the diff id.
        """
        content = Through(open_plain(open_member(self.archive, member)))
        made = compress_layer(content, self.folder, compression)
        if (found := f"sha256:{content.sha256.hexdigest()}") != diff_id:
            raise ImageError(
                f"{member} of the saved image: expected the layer {diff_id}, found {found}",
                "the engine's copy is damaged: docker image rm, and build it again",
            )
        return {
            "mediaType": f"{LAYER}+{compression}", "digest": f"sha256:{made.name}", "size": made.stat().st_size
        }  # fmt: skip

    def blob(self, digest: str) -> Path:
        """Return the file of a blob that was written."""
        return self.folder / digest.removeprefix("sha256:")


@contextmanager
def open_saved(engine: Engine, ref: str, folder: Path) -> Iterator[Saved]:
    """Save the image to an empty folder, which needs room for it. Raises DiskError, ProcessError, ImageError."""
    path, blobs = folder / "image.tar", folder / "blobs"
    save_image(engine, path, ref)
    blobs.mkdir()
    with open_archive(path) as archive:
        found = read_members(path, archive)
    with tarfile.open(path, "r:") as archive:
        yield Saved(archive, found, blobs)


def compress_layer(layer: Source, folder: Path, kind: str) -> Path:
    """Compress a layer into a file of `folder` that has its SHA-256 in hex as its name. `kind` is of COMPRESSIONS.

    Raises DiskError when the disk is full.
    """
    draft = folder / DRAFT
    try:
        with draft.open("wb") as file:
            written = Through(file)
            COMPRESSIONS[kind](layer, written)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskError(f"{draft}: no space left on the disk", REMEDY) from None
        raise
    return draft.rename(folder / written.sha256.hexdigest())


class Uploads:
    """Uploads in threads; the first failure ends all. The threads are daemons: a hanging one delays no exit."""

    def __init__(self, repository: Repository, say: Callable[[str], None]) -> None:
        # Bytes that the repository did not have.
        self.sent = 0
        self._repository = repository
        self._say = say
        self._waiting: queue.SimpleQueue[tuple[str, Path] | None] = queue.SimpleQueue()
        self._open = 0
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        for _ in range(AT_A_TIME):
            threading.Thread(target=self._work, daemon=True).start()

    def add(self, digest: str, path: Path) -> None:
        """Send a file if the repository lacks it. Raises the failure of an earlier upload."""
        with self._changed:
            self._raise()
            self._open += 1
        self._waiting.put((digest, path))

    def finish(self) -> None:
        """Wait until all are sent. Raises the first failure at once."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._open)
            self._raise()
        for _ in range(AT_A_TIME):
            # Each thread ends.
            self._waiting.put(None)

    def _raise(self) -> None:
        if self._failure:
            raise self._failure

    def _work(self) -> None:
        while not self._failure and (item := self._waiting.get()):
            failure: BaseException | None = None
            size = 0
            try:
                size = self._send(*item)
            except BaseException as error:
                # The error is raised again in the push that waits.
                failure = error
            with self._changed:
                self.sent += size
                self._open -= 1
                self._failure = self._failure or failure
                self._changed.notify_all()

    def _send(self, digest: str, path: Path) -> int:
        """Send a blob; return the bytes that went over the wire."""
        size = path.stat().st_size
        if self._repository.size(digest) == size:
            return 0
        if self._repository.mount(digest):
            self._say(f"taken from another repository of this registry  {format_bytes(size)}  {digest}")
            return 0
        start = time.monotonic()
        self._repository.upload(path, digest)
        self._say(f"{time.monotonic() - start:.1f} s  {format_bytes(size)}  {digest}")
        return size
