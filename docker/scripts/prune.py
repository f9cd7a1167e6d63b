"""Removes what prune.txt lists. Standard library only.

usage: prune.py LIST
"""

import glob
import os
import shutil
import sys


def patterns(path):
    """The globs of a list file, without comments and empty lines."""
    with open(path, encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def remove(path):
    """Remove a file, a link or a folder."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


if __name__ == "__main__":
    for pattern in patterns(sys.argv[1]):
        for found in sorted(glob.glob(pattern, recursive=True)):
            remove(found)
