"""Builds wheel and sdist of the commit that is checked out: the same bytes on every host and at every time.

usage: .venv/bin/python scripts/release.py [FOLDER]   (default: build/release)
The folder gets them, the lock of all that the wheel needs, its bill of materials (CycloneDX 1.6), and SHA256SUMS.
`--check` only says whether the commit may be released. `--snapshot` builds any commit, which its version names:
1.0.0+g0123456789ab.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from packaging.requirements import Requirement

from dlc.buildspec.lockfile import parse_versions
from dlc.buildspec.tool_pin import NEEDS, ToolPin
from dlc.buildspec.variant import normal_name

ROOT = Path(__file__).absolute().parents[1]
COMMIT_DIGITS = 12
SNAPSHOT = "for a wheel of this commit that is no release: scripts/release.py --snapshot"
CHANGELOG, VERSION_FILE, SUMS = "CHANGELOG.md", "src/dlc/__init__.py", "SHA256SUMS"


def read_version(root: Path) -> str:
    """Read the version from the package's first lines. Raises ValueError if it is not there."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / VERSION_FILE).read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{VERSION_FILE}: expected a line __version__ = ..., found none")
    return found[1]


def list_uncommitted(root: Path) -> list[str]:
    """Return the files that are in no commit: no wheel of a commit would have them."""
    return [f"not committed: {line}" for line in _ask_git(root, "status", "--porcelain").splitlines()]


def list_faults(root: Path) -> list[str]:
    """Return what is in the way of a release: files in no commit, changes without a version, a version of another."""
    faults = list_uncommitted(root)
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
        _unpack(sdist, Path(scratch))
        _run_hatchling(Path(scratch, sdist.name.removesuffix(".tar.gz")), "wheel", Path(scratch), epoch)
        [wheel] = Path(scratch).glob("*.whl")
        return [Path(shutil.copy(path, folder)) for path in (sdist, wheel)]


def name_snapshot(source: Path, commit: str) -> str:
    """Write a version that names the commit into its files; return it. It is newer than the release before it."""
    version = f"{read_version(source)}+g{commit[:COMMIT_DIGITS]}"
    path = source / VERSION_FILE
    path.write_text(re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', path.read_text(), flags=re.MULTILINE))
    return version


def describe_wheel(source: Path, wheel: Path, epoch: int) -> dict[str, str]:
    """Return the files that go with a wheel, by name: the lock that installs it, and its bill of materials."""
    version, needs = read_version(source), (source / NEEDS).read_text()
    pin = ToolPin(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
    lock, project = f"dlc-{version}.txt", tomllib.loads((source / "pyproject.toml").read_text())["project"]
    head = f"# dlc {version} and all that it needs. In this folder: pip install --require-hashes -r {lock}\n"
    extras = [word for words in project["optional-dependencies"].values() for word in words]
    direct = [normal_name(Requirement(word).name) for word in (*project["dependencies"], *extras)]
    bill = json.dumps(make_bill(pin, version, parse_versions(needs), direct, epoch), indent=1) + "\n"
    return {lock: head + pin.requirement + needs, f"dlc-{version}.cdx.json": bill}


def make_bill(
    pin: ToolPin, version: str, packages: dict[str, str], direct: Sequence[str], epoch: int
) -> dict[str, object]:
    """Return the wheel and the packages of its lock as CycloneDX 1.6; equal wheels have equal documents.

    dlc is no `pkg:pypi`: no index has it, and another project of its name would be taken for it.
    """
    references = {name: f"pkg:pypi/{name}@{found}" for name, found in packages.items()}
    own = f"pkg:generic/dlc@{version.replace('+', '%2B')}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, pin.sha256)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "dlc",
                "version": version,
                "purl": own,
                "hashes": [{"alg": "SHA-256", "content": pin.sha256}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [
            {"type": "library", "bom-ref": reference, "name": name, "version": packages[name], "purl": reference}
            for name, reference in references.items()
        ],
        "dependencies": [{"ref": own, "dependsOn": sorted({references[name] for name in direct})}],
    }


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
    _unpack(archive, folder / "source")


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that this script has made. Debian 12's Python has no `filter` of tarfile yet."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "--extract", "--file", str(archive), "--directory", str(folder)], check=True)


def main() -> int:
    """Build, write the digests, print them. Returns 1 if the commit may not be released."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/release")
    parser.add_argument("--check", action="store_true", help="build nothing")
    parser.add_argument("--snapshot", action="store_true", help="build a commit that is no release")
    arguments = parser.parse_args()
    faults = list_uncommitted(ROOT) if arguments.snapshot else list_faults(ROOT)
    if faults:
        remedy = "commit the files, or git stash them" if list_uncommitted(ROOT) else SNAPSHOT
        print("\n".join([*faults, f"  remedy: {remedy}"]), file=sys.stderr)
        return 1
    if arguments.check:
        return 0
    built = build_release(arguments.folder, is_snapshot=arguments.snapshot)
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built)
    (arguments.folder / SUMS).write_text(sums)
    print(sums, end="")
    publish = f"git tag v{read_version(ROOT)}, then publish the files of {arguments.folder}"
    install = f"cd {arguments.folder} && pip install --require-hashes -r {built[-2].name}, in an environment of its own"
    print(f"next: {install if arguments.snapshot else publish}")
    return 0


def build_release(folder: Path, *, is_snapshot: bool) -> list[Path]:
    """Build the files of the commit that is checked out: sdist, wheel, lock, bill of materials."""
    with tempfile.TemporaryDirectory(prefix="dlc-release-") as scratch:
        _take_commit(ROOT, Path(scratch))
        source, epoch = Path(scratch, "source"), int(_ask_git(ROOT, "log", "-1", "--format=%ct"))
        if is_snapshot:
            name_snapshot(source, _ask_git(ROOT, "rev-parse", "HEAD"))
        built = build_archives(source, folder, epoch)
        for name, text in describe_wheel(source, built[1], epoch).items():
            (folder / name).write_text(text)
            built.append(folder / name)
    return built


if __name__ == "__main__":
    sys.exit(main())
