"""dlc as its users have it: built from a copy of the checkout, installed from its wheel into a new environment."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path

from release import build_archives
from uv import find_uv_bin

from dlc.core.checkout import find_root, read_tree

# What git and tools keep in a checkout, and no build of the package reads: at its top, and anywhere.
TOPS = (".git", ".venv", "build", "dlc-jobs", ".hypothesis")
ANYWHERE = shutil.ignore_patterns(".*_cache", "__pycache__", "*-set-*", ".drafts")
EPOCH = 1790000000
SECONDS = 300.0


def build_package(folder: Path, mask: int = 0o022) -> list[Path]:
    """Build sdist and wheel of a copy that was made in another folder, at another time, under another umask."""
    root, copy = find_root(Path(__file__)), folder / "source"
    before = os.umask(mask)
    try:
        shutil.copytree(root, copy, ignore=partial(_list_ignored, root), copy_function=shutil.copyfile)
    finally:
        os.umask(before)
    for path, file in read_tree(root).items():
        if file.executable and (copy / path).exists():
            (copy / path).chmod(0o777 & ~mask)
    return build_archives(copy, folder / "built", EPOCH)


def _list_ignored(root: Path, folder: str, names: list[str]) -> set[str]:
    return ANYWHERE(folder, names) | (set(names) & set(TOPS) if Path(folder) == root else set())


def install_wheel(wheel: Path, venv: Path) -> Path:
    """Install a wheel; return its `dlc`. What it needs besides is this Python's: no index is asked."""
    uv = [find_uv_bin(), "--offline", "--no-config", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, venv], check=True, timeout=SECONDS)
    argv = [*uv, "pip", "install", "--no-deps", "--python", venv / "bin/python", wheel]
    subprocess.run(argv, check=True, timeout=SECONDS)
    packages = next((venv / "lib").glob("python*/site-packages"))
    # A folder that is named so comes last, and its own .pth files, such as that of an editable dlc, are not read.
    needs = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()])
    (packages / "needs.pth").write_text("\n".join(needs) + "\n")
    return venv / "bin/dlc"


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
