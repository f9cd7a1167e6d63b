"""A cache as one file, with which a job on another host of the same kind begins: made here, checked and taken there.

It is a tar.gz: first a manifest with the key of the code (image, processor, GPU) and the digest of each file, then the
files. What is in it is code. So a job names the digest of the whole file (FILE@sha256:...), and nothing of the file is
used before all digests were compared.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import tarfile
import tempfile

from dlc_runtime.compiler.cache.cache_digests import NAME as DIGESTS
from dlc_runtime.compiler.cache.cache_digests import file_digest, stamped_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ARTIFACT = "DLC_COMPILE_CACHE_ARTIFACT"
MANIFEST, FORMAT = "manifest.json", 1
MOST_MANIFEST_BYTES = 64 << 20
REFERENCE = re.compile(r"(?P<file>.+)@sha256:(?P<digest>[0-9a-f]{64})")
# The parts of a key, in its order.
PARTS = ("image", "architecture", "processor", "GPU")
# Files of this host: locks, partial files, and the list of digests with its time stamps.
LEFT_OUT = re.compile(rf"(.*/)?(\..*|.*\.(lock|partial|tmp)|locks/.*)|{DIGESTS}")


class ArtifactError(Exception):
    """The file cannot be made, or is not used. Its text says why, with what was expected and found."""


def pack(folder: str, key: str, target: str) -> str:
    """Write the files of a cache's subfolder into one file, the same bytes for the same files; return its digest."""
    paths = sorted(path for path, _ in stamped_files(folder) if not LEFT_OUT.fullmatch(path))
    if not paths:
        raise ArtifactError(f"{folder}: expected compiled code, found none")
    files = {path: file_digest(os.path.join(folder, path)) for path in paths}
    manifest = json.dumps({"format": FORMAT, "key": key, "files": files}, sort_keys=True).encode()
    partial = f"{target}.{os.getpid()}.partial"
    try:
        with (
            open(partial, "wb") as raw,
            gzip.GzipFile("", "wb", 6, raw, 0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            add_file(archive, MANIFEST, len(manifest), io.BytesIO(manifest))
            for path in paths:
                with open(os.path.join(folder, path), "rb") as stream:
                    add_file(archive, path, os.fstat(stream.fileno()).st_size, stream)
        os.replace(partial, target)
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return file_digest(target)


def add_file(archive: tarfile.TarFile, path: str, size: int, stream: Any) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    archive.addfile(entry, stream)


def take(reference: str, folder: str, key: str) -> int:
    """Add the files of an artefact to a cache's subfolder; return how many. Raises ArtifactError if a byte differs."""
    file = require_unchanged(reference)
    # Beside the files, so that each moves at once.
    staging = tempfile.mkdtemp(prefix=".artifact-", dir=folder)
    try:
        with tarfile.open(file, "r:gz") as archive:
            listed = read_manifest(archive, file, key)
            extract_all(archive, file, listed, staging)
        for path in listed:
            place = os.path.join(folder, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.replace(os.path.join(staging, path), place)
    except (OSError, EOFError, ValueError, tarfile.TarError) as fault:
        raise ArtifactError(f"{file}: {type(fault).__name__}: {fault}") from fault
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return len(listed)


def require_unchanged(reference: str) -> str:
    """Return the file that a reference names, once its digest was compared."""
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise ArtifactError(f"{ARTIFACT}={reference}: expected FILE@sha256: and 64 digits, as the command printed it")
    file, digest = found["file"], file_digest(found["file"])
    if digest != found["digest"]:
        is_readable = os.access(file, os.R_OK) and os.path.isfile(file)
        have = f"sha256:{digest}" if is_readable else "no file that can be read"
        raise ArtifactError(f"{file}: expected sha256:{found['digest']}, found {have}")
    return file


def read_manifest(archive: tarfile.TarFile, file: str, key: str) -> dict[str, str]:
    """Return digests by path. Raises ArtifactError for code of another image or machine."""
    entry = archive.next()
    stream = archive.extractfile(entry) if entry is not None and entry.name == MANIFEST else None
    if entry is None or stream is None or entry.size > MOST_MANIFEST_BYTES:
        raise ArtifactError(f"{file}: expected {MANIFEST} as its first entry, found {entry.name if entry else 'none'}")
    manifest = json.load(stream)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(f"{file}: expected format {FORMAT}, found another one")
    if manifest["key"] != key:
        raise ArtifactError(f"{file}: it holds code for {name_difference(key, str(manifest['key']))}")
    return dict(manifest["files"])


def name_difference(expected: str, found: str) -> str:
    """Say which parts of two keys differ."""
    ours, theirs = expected.split("-"), found.split("-")
    if len(ours) != len(PARTS) or len(theirs) != len(PARTS):
        return f"another image or machine: expected {expected}, found {found}"
    differing = [
        f"another {name}: expected {one}, found {other}"
        for name, one, other in zip(PARTS, ours, theirs)
        if one != other
    ]
    return ", ".join(differing)


def extract_all(archive: tarfile.TarFile, file: str, listed: dict[str, str], staging: str) -> None:
    """Write the listed files below `staging`, and compare their digests."""
    missing = set(listed)
    for entry in archive:
        if entry.name == MANIFEST:
            continue
        stream = archive.extractfile(entry) if entry.isreg() else None
        if entry.name not in missing or stream is None or not is_below(entry.name):
            raise ArtifactError(f"{file}: {entry.name} is not in its manifest")
        place = os.path.join(staging, entry.name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as target:
            shutil.copyfileobj(stream, target)
        if file_digest(place) != listed[entry.name]:
            raise ArtifactError(f"{file}: {entry.name} is not as its manifest says")
        missing.discard(entry.name)
    if missing:
        raise ArtifactError(f"{file}: {len(missing)} files of its manifest are missing, such as {min(missing)}")


def is_below(path: str) -> bool:
    """Tell whether a path stays inside of the folder that it is joined to."""
    return not os.path.isabs(path) and ".." not in path.split("/") and os.path.normpath(path) == path


def subfolder_to_pack(cache: str, names: list[str], own: str) -> str:
    """Return the subfolder of this image and machine, or the only one."""
    if own in names:
        return own
    if len(names) == 1:
        return names[0]
    raise ArtifactError(f"{cache}: expected the folder {own} or one folder alone, found {', '.join(names) or 'none'}")
