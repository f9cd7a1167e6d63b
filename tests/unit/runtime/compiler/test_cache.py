"""The cache of compiled code: used again by the next job, and never a reason for a job to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch_runs import HANGS, Runner

from dlc_runtime.compiler.cache import bounded, machine
from dlc_runtime.compiler.cache import folder as cache

SOURCES = str(Path(cache.__file__).parents[3])
KEY = {"DLC_CONTENT_KEY": "0123456789abcdef"}
USE = "import os, json; from dlc_runtime.compiler.cache import folder; print(json.dumps(folder.use(os.environ)))"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache that another user can reach too."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def fill(folder: Path, name: str, size: int, used: float) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path


def test_the_second_job_uses_what_the_first_compiled(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    cold = runner.run("plain.py", environ=environ)
    shutil.move(tmp_path / "cache", tmp_path / "elsewhere")  # as a channel brings it
    warm = runner.run("plain.py", environ={**environ, "DLC_COMPILE_CACHE": str(tmp_path / "elsewhere")})
    assert cold.report["cache_hits"] == 0
    assert cold.report["cache_misses"] > 0
    assert warm.report["cache_hits"] > 0
    assert warm.report["cache_misses"] == 0
    assert warm.losses == cold.losses


def test_a_job_that_finds_all_its_code_compiled_precompiles_no_header(runner: Runner, tmp_path: Path) -> None:
    """A container has an empty temporary folder, where inductor puts its headers: making them takes longest of all."""
    made = []
    for number in ("first", "second"):
        temporary = tmp_path / number
        temporary.mkdir()
        environ = {
            "DLC_COMPILE_CACHE": str(tmp_path / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": "",
            "TMPDIR": str(temporary),
        }
        job = runner.run("sequential.py", environ=environ)
        made.append([path for suffix in ("gch", "pch") for path in temporary.rglob(f"*.{suffix}")])
    if not made[0]:
        pytest.skip("this torch precompiles no header")
    assert job.report["cache_misses"] == 0
    assert made[1] == []


def test_two_jobs_at_once_share_a_cache(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    jobs = [runner.start(("sequential.py",), "inductor", environ) for _ in range(2)]
    logs = [process.communicate(timeout=HANGS)[0] for process, _ in jobs]
    assert [process.returncode for process, _ in jobs] == [0, 0], logs
    after = runner.run("sequential.py", environ=environ)
    assert after.report["cache_misses"] == 0


def test_a_cache_of_which_files_were_deleted_is_compiled_anew(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    cold = runner.run("sequential.py", environ=environ)
    for library in (tmp_path / "cache").rglob("*.so"):
        library.unlink()
    after = runner.run("sequential.py", environ=environ)
    assert after.losses == cold.losses
    assert after.report["fallbacks"] == []


def test_each_image_and_machine_has_a_subfolder(folder: Path) -> None:
    one = cache.choose(str(folder), machine.key(KEY), 1, [])
    other = cache.choose(str(folder), machine.key({"DLC_CONTENT_KEY": "fedcba9876543210"}), 1, [])
    assert one != other
    assert Path(one).name.startswith("0123456789ab-")
    assert machine.digest(machine.cpu()) in one


def test_a_cache_of_other_machines_only_is_a_warning(folder: Path) -> None:
    (folder / "another").mkdir()
    warnings: list[str] = []
    assert cache.choose(str(folder), "mine", 1, warnings) == str(folder / "mine")
    assert "holds code of 1 other images or machines and none for this one (mine)" in warnings[0]
    assert cache.choose(str(folder), "mine", 1, later := []) == str(folder / "mine")
    assert later == []


def test_a_file_where_the_cache_should_be_is_a_warning(folder: Path) -> None:
    (folder / "file").write_text("")
    warnings: list[str] = []
    chosen = Path(cache.choose(str(folder / "file"), "mine", 1, warnings))
    assert chosen.is_dir()
    assert "the cache cannot be written" in warnings[0]
    chosen.rmdir()


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
    key = machine.key(KEY)
    fill(folder, f"{key}/ab/code.so", 10, 1.0)
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


def test_the_longest_unused_files_go_first(folder: Path) -> None:
    old = fill(folder, "a/old", 600, 1.0)
    middle = fill(folder, "b/middle", 600, 2.0)
    new = fill(folder, "a/new", 600, 3.0)
    assert bounded.prune(str(folder), 1300) == 600
    assert [path.exists() for path in (old, middle, new)] == [False, True, True]


def test_what_another_job_uses_is_not_deleted(folder: Path) -> None:
    used = fill(folder, "used/file", 600, 1.0)
    free = fill(folder, "free/file", 600, 2.0)
    take = f"bounded.hold({str(folder / 'used')!r}); print(1, flush=True); input()"
    hold = f"from dlc_runtime.compiler.cache import bounded; {take}"
    with subprocess.Popen(
        [sys.executable, "-c", hold],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCES},
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "1\n"
        bounded.prune(str(folder), 0)
        assert [used.exists(), free.exists()] == [True, False]
        job.communicate("\n")
    bounded.prune(str(folder), 0)
    assert not used.exists()


def test_children_use_their_parents_folder(folder: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(folder), **KEY}
    parent = cache.use(environ)
    child = cache.use(environ)
    assert parent["folder"] == child["folder"] == environ["TORCHINDUCTOR_CACHE_DIR"]


def test_a_wrong_size_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = cache.use({"DLC_COMPILE_CACHE": str(folder), "DLC_COMPILE_CACHE_GB": "big", **KEY})
    assert found["warnings"] == ["DLC_COMPILE_CACHE_GB=big: expected a number above 0; 10 is used"]
    assert "DLC_COMPILE_CACHE_GB=big" in capsys.readouterr().err
