"""Takes debug information and local symbols out of the libraries that strip.txt, beside this file, lists.

Usage: strip.py FOLDER   (holds binutils' `strip` and its libraries). Standard library only.
"""

import subprocess
import sys
from pathlib import Path


def strip(folder, libraries):
    """Run binutils on all libraries at once; what they export stays."""
    environment = {"LD_LIBRARY_PATH": folder}
    subprocess.run([f"{folder}/strip", "--strip-unneeded", *libraries], env=environment, check=True)


if __name__ == "__main__":
    lines = Path(__file__).with_name("strip.txt").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    paths = {path for pattern in listed for path in Path("/").glob(pattern.lstrip("/"))}
    found = sorted(path for path in paths if not path.is_symlink())
    if found:
        before = sum(path.stat().st_size for path in found)
        strip(sys.argv[1], found)
        print("stripped", (before - sum(path.stat().st_size for path in found)) // 1000000, "MB")
