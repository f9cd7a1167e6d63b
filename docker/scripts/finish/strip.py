"""Takes debug information and local symbols out of the libraries that strip.txt, beside this file, lists.

Needs binutils; otherwise the standard library only.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def strip(library):
    """Run binutils; what the library exports stays."""
    subprocess.run(["/usr/bin/strip", "--strip-unneeded", library], check=True)


if __name__ == "__main__":
    lines = Path(__file__).with_name("strip.txt").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    paths = {path for pattern in listed for path in Path("/").glob(pattern.lstrip("/"))}
    # Largest first, so that no core waits long for the last one.
    found = sorted((path for path in paths if not path.is_symlink()), key=lambda path: -path.stat().st_size)
    if found:
        before = sum(path.stat().st_size for path in found)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(strip, found))
        print("stripped", (before - sum(path.stat().st_size for path in found)) // 1000000, "MB")
