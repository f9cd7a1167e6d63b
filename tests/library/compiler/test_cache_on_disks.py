"""The cache of compiled code on a disk that is full or cannot be written, and beside another job. Needs no torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc_runtime.compiler.cache import cache_digests, cache_folder, machine
from harness.compile_cache import KEY, fill

SOURCES = str(Path(cache_folder.__file__).parents[3])
USE = (
    "import os, json; from dlc_runtime.compiler.cache import cache_folder; "
    "print(json.dumps(cache_folder.use_cache(os.environ)))"
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache that another user can reach too."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def mounted(options: str, path: Path, then: list[str]) -> str:
    """Runs a program where `path` is mounted in a way, in a mount namespace of its own."""
    script = f'mount {options} "$0" && exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, str(path), *then]
    environ = {**os.environ, "PYTHONPATH": SOURCES, "DLC_COMPILE_CACHE": str(path), **KEY}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if done.returncode and ("unshare" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_read_only_cache_is_copied_and_is_a_warning(folder: Path) -> None:
    key = machine.key_of(KEY)
    fill(folder, f"{key}/ab/code.so", 10, 1.0)
    cache_digests.note_digests(str(folder / key))
    see = f"{USE}; print(open(os.environ['TORCHINDUCTOR_CACHE_DIR'] + '/ab/code.so').read())"
    log = mounted(f'--bind -o ro "{folder}"', folder, [sys.executable, "-c", see])
    assert "the cache cannot be written" in log
    assert "Read-only file system" in log
    assert "with a copy of what the cache holds" in log
    assert "xxxxxxxxxx" in log


def test_a_full_cache_is_a_warning(folder: Path) -> None:
    log = mounted("-t tmpfs -o size=64k none", folder, [sys.executable, "-c", USE])
    assert "the cache cannot be written" in log
    assert "No space left on device" in log


def test_what_another_job_uses_is_not_deleted(folder: Path) -> None:
    used = fill(folder, "used/file", 600, 1.0)
    free = fill(folder, "free/file", 600, 2.0)
    take = f"hold_lock({str(folder / 'used')!r}); print(1, flush=True); input()"
    hold = f"from dlc_runtime.compiler.cache.cache_folder import hold_lock; {take}"
    with subprocess.Popen(
        [sys.executable, "-c", hold],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCES},
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "1\n"
        cache_folder.prune(str(folder), 0)
        assert [used.exists(), free.exists()] == [True, False]
        job.communicate("\n")
    cache_folder.prune(str(folder), 0)
    assert not used.exists()
