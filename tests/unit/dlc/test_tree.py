"""The repository is read once, whole, and from wherever in it dlc is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.checkout import SourceFile, below, find_root, read_tree, text
from dlc.core.errors import SpecError, UsageError


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path in (
        "buildspec/defaults.yml",
        "docker/scripts/run.sh",
        "src/entrypoint/launch/__pycache__/a.pyc",
        "docker/scripts/.DS_Store",
        "docker/scripts/.run.sh.swp",
        "docker/scripts/run.sh~",
        "docker/scripts/#run.sh#",
        "src/entrypoint/.#launcher.py",
        "README.md",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "docker/scripts/run.sh").chmod(0o755)
    (tmp_path / "docker/scripts/lost").symlink_to("nowhere")
    return tmp_path


def test_the_root_is_found_from_any_folder_below_it(checkout: Path) -> None:
    for start in (checkout, checkout / "docker/scripts"):
        assert find_root(start) == checkout


def test_outside_any_checkout_no_other_folder_is_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected buildspec/defaults\.yml in this folder or one above") as caught:
        find_root(tmp_path)
    assert str(tmp_path) in caught.value.message
    assert "checkout" in caught.value.remedy


def test_a_current_folder_that_was_removed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="was removed"):
        find_root()


def test_what_reaches_an_image_is_read_and_nothing_else(checkout: Path) -> None:
    assert read_tree(checkout) == {
        "buildspec/defaults.yml": SourceFile(b"buildspec/defaults.yml"),
        "docker/scripts/run.sh": SourceFile(b"docker/scripts/run.sh", executable=True),
    }


def test_files_below_a_folder_are_named_from_it() -> None:
    tree = {"docker/base/Dockerfile": SourceFile(b""), "docker/base2/x": SourceFile(b"")}
    assert list(below(tree, "docker/base")) == ["Dockerfile"]


def test_a_file_that_is_missing_or_no_text_is_named() -> None:
    with pytest.raises(SpecError, match=r"^a/b: expected this file, found none"):
        text({}, "a/b")
    with pytest.raises(SpecError, match=r"^a/b: expected UTF-8 text, found byte 0xff"):
        text({"a/b": SourceFile(b"a\xff")}, "a/b")
