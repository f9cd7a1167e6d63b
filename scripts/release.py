"""Builds wheel and sdist of the commit that is checked out: the same bytes on every host and at every time.

usage: .venv/bin/python scripts/release.py [FOLDER]   (default: build/release)
The files and their SHA256SUMS are written to the folder. `--check` only says whether the commit may be released.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).absolute().parents[1]
CHANGELOG, VERSION_FILE, SUMS = "CHANGELOG.md", "src/dlc/__init__.py", "SHA256SUMS"


def read_version(root: Path) -> str:
    """Read the version from the package's first lines. Raises ValueError if it is not there."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / VERSION_FILE).read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{VERSION_FILE}: expected a line __version__ = ..., found none")
    return found[1]


def list_faults(root: Path) -> list[str]:
    """Return what is in the way of a release: files in no commit, changes without a version, a version of another."""
    faults = [f"not committed: {line}" for line in _ask_git(root, "status", "--porcelain").splitlines()]
    version, changes = read_version(root), (root / CHANGELOG).read_text()
    if not re.search(rf"^## \[{re.escape(version)}\] - [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$", changes, re.MULTILINE):
        faults.append(f"{CHANGELOG}: expected a section `## [{version}] - YYYY-MM-DD`, found none")
    if waiting := re.findall(r"^- .*", changes.partition("## [Unreleased]")[2].partition("\n## [")[0], re.MULTILINE):
        faults.append(f"{CHANGELOG}: expected no changes under `## [Unreleased]`, found {len(waiting)}: {waiting[0]}")
    # Of an annotated tag both the tag and its commit.
    tagged = _ask_git(root, "for-each-ref", "--format=%(objectname) %(*objectname)", f"refs/tags/v{version}").split()
    if tagged and tagged[-1] != _ask_git(root, "rev-parse", "HEAD"):
        faults.append(f"v{version}: expected a version of its own for this commit, found the tag of another commit")
    return faults


def build_archives(source: Path, folder: Path, epoch: int) -> list[Path]:
    """Build the sdist of a source folder, and the wheel from what the sdist holds: whoever has it can do the same."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dlc-release-") as scratch:
        _run_hatchling(source, "sdist", Path(scratch), epoch)
        [sdist] = Path(scratch).glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        _run_hatchling(Path(scratch, sdist.name.removesuffix(".tar.gz")), "wheel", Path(scratch), epoch)
        [wheel] = Path(scratch).glob("*.whl")
        return [Path(shutil.copy(path, folder)) for path in (sdist, wheel)]


def _run_hatchling(source: Path, target: str, folder: Path, epoch: int) -> None:
    """Run the build backend of pyproject.toml, which this Python has (`make setup`)."""
    argv = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(argv, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)


def _ask_git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True).stdout.strip()


def _take_commit(root: Path, folder: Path) -> None:
    """Unpack the commit's files: what git ignores, and modes that a umask gave, are not among them."""
    archive = folder / "commit.tar"
    _ask_git(root, "archive", "--format=tar", f"--output={archive}", "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(folder / "source", filter="data")


def main() -> int:
    """Build, write the digests, print them. Returns 1 if the commit may not be released."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/release")
    parser.add_argument("--check", action="store_true", help="build nothing")
    arguments = parser.parse_args()
    faults = list_faults(ROOT)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if arguments.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="dlc-release-") as scratch:
        _take_commit(ROOT, Path(scratch))
        epoch = int(_ask_git(ROOT, "log", "-1", "--format=%ct"))
        built = build_archives(Path(scratch, "source"), arguments.folder, epoch)
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built)
    (arguments.folder / SUMS).write_text(sums)
    print(sums, end="")
    print(f"next: git tag v{read_version(ROOT)}, then publish the files of {arguments.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
