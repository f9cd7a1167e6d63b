"""`dlc push` of one image to an empty registry on this host, against compressing its layers once.

The floor reads the exported, uncompressed layers from disk and compresses them on all cores with the library that
`dlc push` has for gzip; it neither hashes nor sends them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from isal import igzip_threaded

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from harness.registry import Registry  # noqa: E402 (the tests' registry, from Debian's packages)

CHUNK = 1 << 20
LEVEL = 2  # of `dlc push`


def measure(identifier: str, ref: str, engine: dict[str, str]) -> tuple[float, float]:
    """Seconds of the push and of its floor. `engine` is the environment that reaches the Docker engine."""
    with tempfile.TemporaryDirectory(prefix="bench-push-") as name:
        folder = Path(name)
        return push(identifier, folder, engine), floor(ref, folder, engine)


def push(identifier: str, folder: Path, engine: dict[str, str]) -> float:
    """Seconds of the whole command; the registry has nothing before it."""
    registry = Registry(folder)
    registry.start()
    try:
        login = registry.login(folder / "docker")
        start = time.perf_counter()
        argv = [sys.executable, "-m", "dlc", "push", identifier, "--to", f"{registry.host}/bench", "--no-scan"]
        subprocess.run(argv, cwd=ROOT, env={**os.environ, **engine, **login}, check=True, capture_output=True)
        return time.perf_counter() - start
    finally:
        registry.kill()
        shutil.rmtree(folder / "data", ignore_errors=True)


def floor(ref: str, folder: Path, engine: dict[str, str]) -> float:
    """Seconds of one reader and all cores compressing what `docker save` writes."""
    archive = folder / "image.tar"
    argv = ["docker", "save", "--output", str(archive), ref]
    subprocess.run(argv, env={**os.environ, **engine}, check=True, capture_output=True)
    start = time.perf_counter()
    with (
        archive.open("rb") as layers,
        igzip_threaded.open(os.devnull, "wb", compresslevel=LEVEL, threads=os.cpu_count() or 1) as packed,
    ):
        shutil.copyfileobj(layers, packed, CHUNK)
    return time.perf_counter() - start
