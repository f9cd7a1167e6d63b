"""dlc as its users have it: its wheel, installed with the packages that an index serves today.

As a program it runs pytest with the Python of that environment, so that the tests find no dlc but the one that ships:
`make test` does so. The programs that the tests start have no other packages either; pytest itself and the tools of the
tests come last in its own search for modules, from the Python that this program was started with.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import pytest
from uv import find_uv_bin

from dlc.buildspec.locks.resolve import make_uv_environment
from dlc.core.atomic_files import hold_lock
from dlc.core.checkout import find_root, read_tree
from dlc.core.environment import cache_folder

# What git and tools keep in a checkout, and no build of the package reads: at its top, and anywhere.
TOPS = (".git", ".venv", "build", "dlc-jobs", ".hypothesis")
ANYWHERE = shutil.ignore_patterns(".*_cache", "__pycache__", "*-set-*", ".drafts")
EPOCH = 1790000000
SECONDS = 300.0
# In an environment: the folder of its wheel. It is there once the environment is whole.
BUILT = "dlc-built"
UNUSED_SECONDS = 86400
OLDEST_PYTHON = (3, 11)
ROOT = find_root(Path(__file__))
# The programs that tests and linters need, and the Python that has pytest: of the checkout's own environment.
TOOLS = Path(pytest.__file__).parents[4] / "bin"
BUILD = """
import sys
from pathlib import Path
from release import build_archives
build_archives(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""
RUN_PYTEST = "import sys; sys.path.append(sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


def build_package(folder: Path, mask: int = 0o022) -> list[Path]:
    """Build sdist and wheel of a copy that was made in another folder, at another time, under another umask."""
    copy = folder / "source"
    before = os.umask(mask)
    try:
        shutil.copytree(ROOT, copy, ignore=partial(_list_ignored, ROOT), copy_function=shutil.copyfile)
    finally:
        os.umask(before)
    for path, file in read_tree(ROOT).items():
        if file.executable and (copy / path).exists():
            (copy / path).chmod(0o777 & ~mask)
    words = [f"{TOOLS}/python", "-c", BUILD, str(copy), f"{folder}/built", str(EPOCH)]
    done = subprocess.run(words, cwd=ROOT / "scripts", capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return sorted((folder / "built").iterdir(), key=lambda path: path.suffix)


def _list_ignored(root: Path, folder: str, names: list[str]) -> set[str]:
    return ANYWHERE(folder, names) | (set(names) & set(TOPS) if Path(folder) == root else set())


@lru_cache
def take_environment(python: str = sys.executable) -> Path:
    """Return the folder of an environment of this Python with the checkout's wheel; make it if it is not there.

    It is kept in dlc's cache: for the same wheel no index is asked again, and processes that ask at once make one.
    """
    if python == sys.executable and Path(sys.prefix, BUILT).is_dir():
        return Path(sys.prefix)
    home = cache_folder() / "installed-for-tests"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dlc-wheel-") as scratch:
        _, wheel = build_package(Path(scratch))
        identity = [wheel.read_bytes(), python.encode(), _ask_version(python).encode()]
        folder = home / hashlib.sha256(b"\0".join(identity)).hexdigest()[:16]
        with hold_lock(home, SECONDS):
            _remove_unused(home)
            if not (folder / BUILT).is_dir():
                shutil.rmtree(folder, ignore_errors=True)
                install_wheel(wheel, folder, python)
                (folder / "half").mkdir()
                shutil.copy(wheel, folder / "half")
                (folder / "half").rename(folder / BUILT)
            os.utime(folder)
    return folder


def _remove_unused(home: Path) -> None:
    for folder in home.iterdir():
        if folder.stat().st_mtime < time.time() - UNUSED_SECONDS:
            shutil.rmtree(folder)


def _ask_version(python: str) -> str:
    return subprocess.run([python, "-VV"], check=True, capture_output=True, text=True, timeout=SECONDS).stdout


def install_wheel(wheel: Path, venv: Path, python: str = sys.executable) -> None:
    """Install a wheel and what it needs into a new environment, as a user does without any lock."""
    uv = [find_uv_bin(), "--no-config", "--quiet"]
    install = [*uv, "pip", "install", "--python", f"{venv}/bin/python", str(wheel)]
    for argv in ([*uv, "venv", "--python", python, str(venv)], install):
        subprocess.run(argv, check=True, timeout=SECONDS, env={**os.environ, **make_uv_environment()})


def list_pythons() -> list[str]:
    """Return the Pythons of this host that dlc is for: this one, and one of each other version."""
    found = {sys.version_info[:2]: sys.executable}
    places = [Path(place) for place in os.get_exec_path()] + [*Path.home().glob(".pyenv/versions/*/bin")]
    for minor, place in product(range(OLDEST_PYTHON[1], 20), places):
        path = place / f"python3.{minor}"
        # One of pyenv's programs for a version that is not chosen ends with an error.
        if (
            (3, minor) not in found
            and path.exists()
            and not subprocess.call([path, "-c", ""], stderr=subprocess.DEVNULL)
        ):
            found[3, minor] = str(path)
    return [python for _, python in sorted(found.items())]


def run_installed(
    command: Path, folder: Path, *words: str, seconds: float = SECONDS, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the installed dlc in a folder, with nothing of this process's Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        [command, *words],
        cwd=folder,
        env={**kept, **more},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def main() -> None:
    """Become pytest in the environment."""
    python = str(take_environment() / "bin/python")
    tools = str(Path(pytest.__file__).parents[1])
    paths = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["pythonpath"]
    # There the checkout's own packages would come first.
    options = ["-o", f"pythonpath={' '.join(path for path in paths if path != 'src')}"]
    os.execv(python, [python, "-c", RUN_PYTEST, tools, *options, *sys.argv[1:]])


if __name__ == "__main__":
    main()
