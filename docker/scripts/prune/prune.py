"""Removes what a list names, or puts links in its place. Standard library only.

Usage: prune.py LIST   (a glob a line, ** is any depth; `GLOB => TARGET` puts a relative link there if TARGET exists)
"""

import shutil
import sys
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


def replace(path, target):
    """Put a link in the place of a path, where there is something that it can point to."""
    if not path.is_symlink() and path.parent.joinpath(target).exists():
        remove(path)
        path.symlink_to(target)


if __name__ == "__main__":
    for line in patterns(Path(sys.argv[1]).read_text(encoding="utf-8")):
        pattern, _, target = line.partition(" => ")
        for found in sorted(Path("/").glob(pattern.lstrip("/"))):
            if target:
                replace(found, target)
            else:
                remove(found)
