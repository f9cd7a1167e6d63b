"""dlc plan --changed-since: the sources as git has them at a revision, of a checkout and of a project below one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dlc.__main__ import main
from dlc.cli.shared.plan_since import read_workspace_at
from dlc.core.checkout import Workspace, find_workspace, read_workspace
from dlc.core.errors import UsageError
from dlc.plan.changes import NO_REVISION
from harness.specimen import PYTORCH, PYTORCH_PATH, TENSORFLOW_ID, TORCH_ID, locked, unlocked, write_tree

LAUNCHER = "src/entrypoint/launcher.py"


def git(root: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    argv = ["git", "-C", str(root), *names, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit(root: Path) -> str:
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "one")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The specimen as a git repository, with a program among its files, and as the current folder."""
    root = tmp_path / "checkout"
    write_tree(locked(unlocked()), root)
    (root / LAUNCHER).chmod(0o755)
    git(tmp_path, "init", "--quiet", str(root))
    commit(root)
    monkeypatch.chdir(root)
    return root


def names(capsys: pytest.CaptureFixture[str], revision: str, *words: str) -> list[str]:
    assert main(["plan", "--changed-since", revision, "--names", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_tree_of_a_revision_is_the_tree_that_was_committed(checkout: Path) -> None:
    before = read_workspace()
    assert before[LAUNCHER].executable
    (checkout / LAUNCHER).write_text("print('newer')\n")
    (checkout / "docker/new").mkdir()
    (checkout / "docker/new/Dockerfile").write_text("FROM scratch\n")
    assert read_workspace_at(find_workspace(), "HEAD") == before
    assert read_workspace_at(find_workspace(), NO_REVISION) == {}


def test_images_that_a_commit_changes_are_named_with_their_parts(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = git(checkout, "rev-parse", "HEAD")
    assert names(capsys, first) == []
    (checkout / "README.md").write_text("no file of an image\n")
    second = commit(checkout)
    assert names(capsys, first) == []
    (checkout / LAUNCHER).write_text("print('newer')\n")
    assert names(capsys, second) == [TORCH_ID, TENSORFLOW_ID]
    assert names(capsys, second, "pytorch-*") == [TORCH_ID]
    commit(checkout)
    assert main(["plan", "--changed-since", second, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"id": TORCH_ID, "parts": ["image"], "why": ""}
    assert main(["plan", "--changed-since", second]) == 0
    assert capsys.readouterr().out.endswith(f"2 images are built anew since {second}\n")
    assert names(capsys, "HEAD") == []


def test_without_a_revision_before_every_image_is_new(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys, NO_REVISION) == [TORCH_ID, TENSORFLOW_ID]
    git(checkout, "rm", "--quiet", "-r", "--cached", "buildspec")
    git(checkout, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "without images")
    assert names(capsys, "HEAD") == [TORCH_ID, TENSORFLOW_ID]


def test_a_buildspec_that_nobody_can_read_now_changes_every_image(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / PYTORCH_PATH).write_text(f"{PYTORCH}unknown: key\n")
    commit(checkout)
    (checkout / PYTORCH_PATH).write_text(PYTORCH)
    assert names(capsys, "HEAD") == [TORCH_ID, TENSORFLOW_ID]
    assert names(capsys, "HEAD~1") == []


def test_after_a_forced_push_every_image_counts_as_changed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commit before is in no branch any more, and a clone does not have it."""
    assert main(["plan", "--changed-since", "f" * 40, "--names"]) == 0
    out, err = capsys.readouterr()
    assert out.split() == [TORCH_ID, TENSORFLOW_ID]
    assert err.startswith(f"dlc: git does not know the commit {'f' * 40}, as after a forced push")


@pytest.mark.parametrize("revision", ["nothing-like-it", "", "--output=/tmp/there", "HEAD:buildspec", "f" * 39])
def test_a_wrong_revision_is_one_error(revision: str, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", f"--changed-since={revision}", "--names"]) == UsageError.exit_code
    out, err = capsys.readouterr()
    assert (out, err.count("dlc: ")) == ("", 1)
    assert err.startswith("dlc: --changed-since: git says of ")
    assert "fetch the whole history" in err


def test_a_folder_that_is_no_repository_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "buildspec").mkdir()
    write_tree(locked(unlocked()), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(["plan", "--changed-since", "HEAD"]) == UsageError.exit_code
    assert "not a git repository" in capsys.readouterr().err


def test_names_alone_are_only_for_changes(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--names"]) == UsageError.exit_code
    assert "--names is only for --changed-since and --missing-from" in capsys.readouterr().err


def test_a_project_in_a_repository_of_its_own_has_the_recipes_of_now(checkout: Path, tmp_path: Path) -> None:
    project = tmp_path / "all/projects/demo"
    (project / "locks/demo").mkdir(parents=True)
    (project / "dlc.yml").write_text(f"name: demo\nfrom: {TORCH_ID}\n")
    (project / "locks/demo/training.txt").write_text("einops==0.8.1\n")
    git(tmp_path, "init", "--quiet", str(tmp_path / "all"))
    commit(tmp_path / "all")
    (project / "locks/demo/training.txt").write_text("einops==0.8.2\n")
    (checkout / LAUNCHER).write_text("print('newer')\n")
    tree = read_workspace_at(Workspace(checkout, project), "HEAD")
    assert tree["locks/demo/training.txt"].data == b"einops==0.8.1\n"
    assert tree["dlc.yml"].data == (project / "dlc.yml").read_bytes()
    assert tree[LAUNCHER].data == b"print('newer')\n"
