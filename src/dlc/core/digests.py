"""SHA-256 of files that the cache keeps: each is checked whenever it is used, and made again if it differs."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

# Modes of what a build takes, whatever the umask is: BuildKit compares modes too.
MODE, FOLDER_MODE = 0o644, 0o755


def hash_file(path: Path) -> str:
    """Return a file's digest in hexadecimal.

    It is always read: a disk that loses bits changes neither time nor size.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(path: Path) -> None:
    """Write down the digest of a file that nothing else names, beside its folder, and give both their modes."""
    path.chmod(MODE)
    path.parent.chmod(FOLDER_MODE)
    draft = _record_path(path).with_suffix(f".{os.getpid()}")
    draft.write_text(f"{hash_file(path)}\n")
    draft.replace(_record_path(path))


def is_sealed(path: Path) -> bool:
    """Tell whether the file is there as `seal` found it."""
    try:
        return hash_file(path) == _record_path(path).read_text().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def say_damaged(path: Path) -> None:
    """Print a warning that a file is not as it was written, if there is one."""
    if path.exists():
        print(f"dlc: warning: {path}: not as it was written; made anew", file=sys.stderr, flush=True)


def _record_path(path: Path) -> Path:
    return path.parent.with_name(f"{path.parent.name}.sha256")
