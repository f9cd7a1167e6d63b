"""Which commit may be released: everything is committed, its changes have its version, and no other commit has it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.version import Version
from release import CHANGELOG, VERSION_FILE, describe_wheel, list_faults, list_uncommitted, name_snapshot, read_version

import dlc
from dlc.buildspec.lockfile import parse_versions
from dlc.buildspec.tool_pin import NEEDS
from dlc.core.checkout import find_root

CHANGES = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-28\n\n- It can be had.\n"


ROOT = find_root(Path(__file__))


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True, timeout=60)


def commit(root: Path, changes: str = CHANGES) -> None:
    (root / CHANGELOG).write_text(changes)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "one")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a commit that may be released."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / VERSION_FILE).parent.mkdir(parents=True)
    (tmp_path / VERSION_FILE).write_text('__version__ = "1.2.0"\n')
    commit(tmp_path)
    return tmp_path


def test_a_commit_whose_changes_have_its_version_may_be_released(root: Path) -> None:
    assert list_faults(root) == []


def test_files_that_are_in_no_commit_are_named(root: Path) -> None:
    (root / "new.py").touch()
    (root / CHANGELOG).write_text(f"{CHANGES}\n")
    assert list_faults(root) == [f"not committed: M {CHANGELOG}", "not committed: ?? new.py"]


@pytest.mark.parametrize("section", ["## [1.2] - 2026-11-28", "## [1.2.0]", "## [1.2.0] - today"])
def test_a_version_needs_its_section_with_a_day(section: str, root: Path) -> None:
    commit(root, CHANGES.replace("## [1.2.0] - 2026-11-28", section))
    [fault] = list_faults(root)
    assert fault == f"{CHANGELOG}: expected a section `## [1.2.0] - YYYY-MM-DD`, found none"


def test_changes_that_have_no_version_yet_are_counted(root: Path) -> None:
    commit(root, CHANGES.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Added\n\n- Two.\n- More.\n"))
    assert list_faults(root) == [f"{CHANGELOG}: expected no changes under `## [Unreleased]`, found 2: - Two."]


@pytest.mark.parametrize("options", [(), ("--annotate", "--message", "one")], ids=["plain", "annotated"])
def test_a_version_belongs_to_one_commit(options: tuple[str, ...], root: Path) -> None:
    git(root, "tag", *options, "v1.2.0")
    assert list_faults(root) == []
    commit(root)
    [fault] = list_faults(root)
    assert fault == "v1.2.0: expected a version of its own for this commit, found the tag of another commit"


def test_a_file_without_a_version_is_an_error(root: Path) -> None:
    (root / VERSION_FILE).write_text("version = 1\n")
    with pytest.raises(ValueError, match="expected a line __version__"):
        list_faults(root)


@pytest.fixture
def clone(root: Path) -> Path:
    """The same repository with the script in it."""
    (root / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release.py", root / "scripts")
    commit(root, CHANGES.replace("## [Unreleased]\n", "## [Unreleased]\n\n- More.\n"))
    return root


def refuse(clone: Path, *words: str) -> str:
    argv = [sys.executable, str(clone / "scripts/release.py"), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stderr


def test_a_refusal_names_the_way_to_a_wheel_of_this_commit(clone: Path) -> None:
    said = refuse(clone)
    assert "expected no changes under `## [Unreleased]`, found 1: - More.\n  remedy: for a wheel of this commit" in said
    assert said.endswith("scripts/release.py --snapshot\n")


def test_a_snapshot_is_of_a_commit_and_says_what_is_in_none(clone: Path) -> None:
    (clone / "new.py").touch()
    said = "not committed: ?? new.py\n  remedy: commit the files, or git stash them\n"
    assert refuse(clone, "--snapshot") == said
    assert list_uncommitted(clone) == ["not committed: ?? new.py"]


def test_a_snapshot_names_its_commit_and_is_newer_than_the_release_before_it(root: Path) -> None:
    version = name_snapshot(root, "0123456789abcdef" * 2)
    assert version == read_version(root) == "1.2.0+g0123456789ab"
    assert Version("1.2.0") < Version(version) < Version("1.2.1")


def test_a_wheel_comes_with_its_lock_and_a_valid_bill_of_materials(tmp_path: Path) -> None:
    wheel = tmp_path / f"dlc-{dlc.__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    digest, needs = hashlib.sha256(b"a wheel").hexdigest(), (ROOT / NEEDS).read_text()
    files = describe_wheel(ROOT, wheel, 1_790_000_000)
    assert files == describe_wheel(ROOT, wheel, 1_790_000_000)
    lock, bill = files.values()
    assert list(files) == [f"dlc-{dlc.__version__}.txt", f"dlc-{dlc.__version__}.cdx.json"]
    assert lock.partition("\n")[2] == f"./{wheel.name} \\\n    --hash=sha256:{digest}\n{needs}"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    said = json.loads(bill)
    own = said["metadata"]["component"]
    assert (own["name"], own["hashes"]) == ("dlc", [{"alg": "SHA-256", "content": digest}])
    # No index has dlc, and a stranger's project of its name is another program.
    assert not own["purl"].startswith("pkg:pypi/")
    assert {each["name"]: each["version"] for each in said["components"]} == parse_versions(needs)
    [graph] = said["dependencies"]
    assert "pkg:pypi/uv@0.13.8" in graph["dependsOn"]
    assert set(graph["dependsOn"]) < {each["bom-ref"] for each in said["components"]}
