"""Makes the links that a list names. Standard library only.

Usage: link.py LIST   (links.txt, beside this file, says how one is written)
"""

import sys
from os.path import relpath
from pathlib import Path


def link(folders, targets, name=None):
    """Relative links in each folder that a glob finds, to each target there is; what is there already stays."""
    for folder in Path("/").glob(folders.lstrip("/")):
        for target in sorted(folder.glob(targets)):
            new = folder / (name or target.name)
            if not new.exists():
                new.symlink_to(relpath(target, folder))


if __name__ == "__main__":
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            link(*line.split())
