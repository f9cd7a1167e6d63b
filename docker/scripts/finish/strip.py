"""Takes debug information and local symbols out of the libraries that strip.txt, beside this file, lists.

Needs binutils; otherwise the standard library only.
"""

import subprocess
from pathlib import Path


def strip(libraries):
    """Run binutils on all libraries at once; what they export stays."""
    subprocess.run(["/usr/bin/strip", "--strip-unneeded", *libraries], check=True)


if __name__ == "__main__":
    lines = Path(__file__).with_name("strip.txt").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    paths = {path for pattern in listed for path in Path("/").glob(pattern.lstrip("/"))}
    found = sorted(path for path in paths if not path.is_symlink())
    if found:
        before = sum(path.stat().st_size for path in found)
        strip(found)
        print("stripped", (before - sum(path.stat().st_size for path in found)) // 1000000, "MB")
