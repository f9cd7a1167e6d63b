"""gzip and zstd on all cores: equal content becomes equal bytes, with any number of threads.

The bytes depend only on the version of the library (isal, zstandard), the level and the block size: the header has
neither a time nor a name.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from typing import IO, Protocol, cast

import zstandard
from isal import igzip_threaded

# 0 to 3; on layers of PyTorch 3 takes 50% longer than 2 and saves 2%.
LEVEL = 2
# zstd's own default.
ZSTD_LEVEL = 3
# A thread compresses at a time; another value gives another digest.
BLOCK_BYTES = 1 << 20
# A compressed file begins with these bytes.
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}


class Sink(Protocol):
    """What takes the compressed bytes."""

    def write(self, data: bytes) -> int:
        """Take some bytes."""

    def flush(self) -> None:
        """Expect nothing more for now."""


class Through:
    """Counts and hashes the bytes on their way to a file, to nowhere, or out of a file."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self.bytes = 0
        self.sha256 = hashlib.sha256()
        self._file = file

    def write(self, data: bytes) -> int:
        """Write into the file."""
        self._note(data)
        return self._file.write(data) if self._file else len(data)

    def read(self, size: int) -> bytes:
        """Read out of the file."""
        data = self._file.read(size) if self._file else b""
        self._note(data)
        return data

    def flush(self) -> None:
        """Bring what was written into the file."""
        if self._file:
            self._file.flush()

    def _note(self, data: bytes) -> None:
        self.bytes += len(data)
        self.sha256.update(data)


class Source(Protocol):
    """What gives the bytes to compress."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""


def compress_gzip(content: Source, sink: Sink) -> None:
    """Read all of `content` and write it as gzip."""
    _run_aside(_write_gzip, content, sink)


def compress_zstd(content: Source, sink: Sink) -> None:
    """Read all of `content` and write it as zstd."""
    _run_aside(_write_zstd, content, sink)


def _write_gzip(content: Source, sink: Sink) -> None:
    with igzip_threaded.open(  # type: ignore[no-untyped-call]
        sink, "wb", LEVEL, threads=_count_cores(), block_size=BLOCK_BYTES
    ) as compressor:
        while block := content.read(BLOCK_BYTES):
            compressor.write(block)


def _write_zstd(content: Source, sink: Sink) -> None:
    # A single thread too cuts the content into jobs, so the bytes stay the same.
    packing = zstandard.ZstdCompressor(level=ZSTD_LEVEL, threads=_count_cores())
    packing.copy_stream(cast("IO[bytes]", content), cast("IO[bytes]", sink), read_size=BLOCK_BYTES)


class _Endable:
    """Content that ends when its reader no longer wants it."""

    def __init__(self, content: Source) -> None:
        self.is_wanted = True
        self._content = content

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        return self._content.read(size) if self.is_wanted else b""


def _run_aside(work: Callable[[Source, Sink], None], content: Source, sink: Sink) -> None:
    """Compress in a thread of its own: a signal raises its exception in the main thread and nowhere else.

    isal's threads wait without end for the block of a write that an exception has cut off. Here an exception ends the
    content, and the compressor is closed as always.
    """
    given = _Endable(content)
    done: Future[None] = Future()

    def run() -> None:
        try:
            work(given, sink)
            done.set_result(None)
        except BaseException as error:
            # The error is raised again when the result is asked for.
            done.set_exception(error)

    thread = Thread(target=run, daemon=True)
    try:
        thread.start()
        done.result()
    finally:
        given.is_wanted = False
        if thread.is_alive():
            thread.join()


COMPRESSIONS: Mapping[str, Callable[[Source, Sink], None]] = {"gzip": compress_gzip, "zstd": compress_zstd}


def open_plain(content: IO[bytes]) -> IO[bytes]:
    """Return the same file; if it is compressed, it is uncompressed while it is read."""
    start = content.read(4)
    content.seek(0)
    if start.startswith(MAGIC["gzip"]):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=content))
    if start == MAGIC["zstd"]:
        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True))
    return content


def _count_cores() -> int:
    return len(os.sched_getaffinity(0))
