"""Which commit may be released: everything is committed, its changes have its version, and no other commit has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from release import CHANGELOG, VERSION_FILE, list_faults

CHANGES = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-28\n\n- It can be had.\n"


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
