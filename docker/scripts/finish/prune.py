"""Removes what prune.txt, beside this file, lists. Standard library only."""

import shutil
from pathlib import Path


def patterns(text):
    """The globs of a list, without comments and empty lines."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def remove(path):
    """Remove a file, a link or a folder, which may have gone with its parent."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    for pattern in patterns(Path(__file__).with_name("prune.txt").read_text(encoding="utf-8")):
        for found in sorted(Path("/").glob(pattern.lstrip("/"))):
            remove(found)
