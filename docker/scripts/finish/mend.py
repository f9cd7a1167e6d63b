"""Mends files of packages whose makers release no more: mend.txt, beside this file, says what. Standard library only.

Before the bytecode is compiled. A line that is found nowhere in its file is an error: the package has changed.
"""

import sys
from pathlib import Path


def mend(path, old, new):
    """Put `new` in the place of `old`."""
    text = path.read_text(encoding="utf-8")
    if old not in text:
        sys.exit(f"mend.txt: expected {old!r} in {path}, found it nowhere")
    path.write_text(text.replace(old, new), encoding="utf-8")


if __name__ == "__main__":
    for line in Path(__file__).with_name("mend.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, old, new = line.split(" => ")
            for found in sorted(Path("/").glob(pattern.lstrip("/"))):
                mend(found, old, new)
