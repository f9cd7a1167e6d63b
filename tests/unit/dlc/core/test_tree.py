"""The repository is read once, whole, and from wherever in it dlc is started."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dlc.core import checkout as places
from dlc.core.checkout import (
    SourceFile,
    Workspace,
    files_below,
    find_root,
    find_workspace,
    read_other_recipes,
    read_project,
    read_text,
    read_tree,
    read_workspace,
)
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
        "src/entrypoint/.launcher.py.swn",
        "src/entrypoint/launch/4913",
        "src/entrypoint/launch/.git/HEAD",
        "src/entrypoint/launch/.mypy_cache/CACHEDIR.TAG",
        "src/entrypoint/.idea/workspace.xml",
        "docker/scripts/run.sh.orig",
        "docker/scripts/run.sh.rej",
        "docker/scripts/._run.sh",
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


def test_jobs_that_are_started_elsewhere_are_of_the_checkout_that_dlc_belongs_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_workspace() == Workspace(find_root(Path(__file__)))
    with pytest.raises(UsageError):
        find_root()


def test_without_any_checkout_recipes_are_those_of_the_wheel(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr(places, "OWN", elsewhere)
    with pytest.raises(UsageError, match="found none"):
        find_workspace(elsewhere)
    monkeypatch.setattr(places, "INSTALLED", checkout)
    assert find_workspace(elsewhere) == Workspace(checkout)
    assert find_workspace(elsewhere).root == checkout


def test_a_project_is_the_nearest_one_and_in_a_checkout_has_that_ones_recipes(checkout: Path) -> None:
    inner = checkout / "mine/inner"
    (inner / "code").mkdir(parents=True)
    for folder in (checkout / "mine", inner):
        (folder / "dlc.yml").write_text("name: mine\n")
    assert find_workspace(inner / "code") == Workspace(checkout, inner)
    assert find_workspace(inner / "code").root == inner
    within = checkout / "mine/checkout"
    (within / "buildspec").mkdir(parents=True)
    (within / "buildspec/defaults.yml").write_text("")
    assert find_workspace(within) == Workspace(within), "a project around a checkout is not the checkout's"
    (inner / "locks/an-image").mkdir(parents=True)
    (inner / "locks/an-image/cuda.txt").write_text("")
    (inner / "train.py").write_text("")
    added = read_workspace(find_workspace(inner)).keys() - read_tree(checkout).keys()
    assert added == {"dlc.yml", "locks/an-image/cuda.txt"}


def test_other_recipes_are_read_from_a_wheel_as_from_a_checkout(checkout: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "dlc-9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dlc/recipes/pyproject.toml", "no part of an image")
        for path, file in read_tree(checkout).items():
            info = zipfile.ZipInfo(f"dlc/recipes/{path}")
            info.external_attr = (0o755 if file.executable else 0o644) << 16
            archive.writestr(info, file.data)
    assert read_other_recipes(wheel) == read_other_recipes(checkout) == read_tree(checkout)


@pytest.mark.parametrize(
    ("name", "fault"), [("docker", "a checkout"), ("README.md", "another file"), ("w.whl", "none")]
)
def test_what_holds_no_recipes_is_said(checkout: Path, name: str, fault: str) -> None:
    with zipfile.ZipFile(checkout / "w.whl", "w") as archive:
        archive.writestr("dlc/__init__.py", "")
    with pytest.raises(UsageError, match=fault):
        read_other_recipes(checkout / name)


def test_in_another_checkout_it_is_the_other_one(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout / "docker")
    assert find_workspace() == Workspace(checkout)


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


def test_modes_are_the_owners_whoever_reads_them(checkout: Path) -> None:
    """A clone under another umask, or one that another user reads, has the same content."""
    before = read_tree(checkout)
    (checkout / "docker/scripts/run.sh").chmod(0o700)
    (checkout / "buildspec/defaults.yml").chmod(0o611)
    assert read_tree(checkout) == before


def test_a_folder_that_cannot_be_read_is_no_empty_folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(path: str, real: Callable[[str], object] = os.scandir) -> object:
        if Path(path).name == "scripts":  # root may read everything
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="scripts"):
        read_tree(checkout)


def test_files_below_a_folder_are_named_from_it() -> None:
    tree = {"docker/base/Dockerfile": SourceFile(b""), "docker/base2/x": SourceFile(b"")}
    assert list(files_below(tree, "docker/base")) == ["Dockerfile"]


def test_a_file_that_is_missing_or_no_text_is_named() -> None:
    with pytest.raises(SpecError, match=r"^a/b: expected this file, found none"):
        read_text({}, "a/b")
    with pytest.raises(SpecError, match=r"^a/b: expected UTF-8 text, found byte 0xff"):
        read_text({"a/b": SourceFile(b"a\xff")}, "a/b")


@pytest.mark.parametrize("kind", ["file", "folder", "folder inside", "link to a link"])
def test_a_link_out_of_the_tree_is_refused_and_its_target_is_in_no_key_and_no_export(kind: str, tmp_path: Path) -> None:
    own, secret = tmp_path / "own", tmp_path / "secret"
    for folder in (own / "docker/scripts", secret):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("of this host")
    link = own / "docker/scripts/b"
    if kind == "link to a link":
        (tmp_path / "own/outer").symlink_to(secret / "a.txt")
    targets = {"file": secret / "a.txt", "folder": secret, "folder inside": "../scripts"}
    link.symlink_to(targets.get(kind, own / "outer"))
    with pytest.raises(SpecError, match=r"scripts/b: expected a (file|folder)"):
        read_tree(own)


def test_the_locks_of_a_project_are_no_link_out_of_it(tmp_path: Path) -> None:
    for name in ("project", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys/id").write_text("secret")
    (tmp_path / "project/dlc.yml").write_text("id: mine\n")
    (tmp_path / "project/locks").symlink_to(tmp_path / "keys")
    with pytest.raises(SpecError, match=r"locks: expected a file of .*, found a link out of it"):
        read_project(tmp_path / "project")


def test_a_link_within_the_tree_is_read(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/a").write_text("one")
    (tmp_path / "docker/b").symlink_to("a")
    assert read_tree(tmp_path)["docker/b"].data == b"one"


def test_locks_of_a_project_are_the_same_with_the_line_ends_of_windows(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "dlc.yml").write_text("id: mine\n")
    (tmp_path / "locks/training.txt").write_bytes(b"# input\r\nsix==1.17.0\r\n")
    assert read_project(tmp_path)["locks/training.txt"].data == b"# input\nsix==1.17.0\n"
