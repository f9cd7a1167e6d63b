"""What verbs do in a project: where locks go and what they prefer, and which image and script a job has."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import dlc
from dlc.__main__ import main
from dlc.buildspec.lockfile import ALL_FILES, explain_staleness, parse_versions
from dlc.buildspec.locks import resolve
from dlc.buildspec.locks.resolve import LockRequest
from dlc.buildspec.matrix import load_variants
from dlc.cli import run_job
from dlc.cli.shared import lock_images
from dlc.cli.shared.lock_images import find_home, lock_new_project
from dlc.core import checkout
from dlc.core.checkout import Workspace, find_root, find_workspace, read_workspace
from dlc.core.errors import UsageError
from dlc.image_build.buildx import read_revision

BASE = "pytorch-2.13-training-cpu-py311"
IMAGE = f"{BASE}-demo"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that has no lock yet, and is the current folder."""
    (tmp_path / "dlc.yml").write_text(f"name: demo\nfrom: {BASE}\npackages: [einops]\nscript: code/job.py\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code/job.py").write_text("")
    (tmp_path / "job.yml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[LockRequest]:
    """What was to be resolved. No index is asked: the answer is what was preferred, and the package."""
    found: list[LockRequest] = []

    def resolve_packages(request: LockRequest, requirements: Sequence[str], constraints: Sequence[str] = ()) -> str:
        found.append(request)
        return "\n".join([*constraints, "einops==0.8.1"])

    monkeypatch.setattr(resolve, "resolve_packages", resolve_packages)
    return found


def test_the_lock_is_written_into_the_project_and_prefers_the_released_versions(
    demo: Path, requests: list[LockRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lock"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"locks/{IMAGE}: \d+ packages; 1 change against the image below", said[0])
    assert said[1] == "  + einops 0.8.1"
    assert sorted(path.name for path in (demo / f"locks/{IMAGE}").iterdir()) == sorted(ALL_FILES)
    [request] = requests
    preferred = parse_versions(request.preferred)
    assert preferred["torch"] == "2.13.0+cpu"
    assert len(preferred) > 50
    assert "einops" in request.training


def test_a_build_makes_a_lock_that_is_missing_and_leaves_a_stale_one(demo: Path, requests: list[LockRequest]) -> None:
    args = argparse.Namespace(globs=[IMAGE], sets=[], platform="linux/amd64")
    workspace = find_workspace()
    tree = read_workspace(workspace)
    tree, [variant] = lock_new_project(load_variants(tree, [IMAGE]), tree, workspace, args)
    assert explain_staleness(tree, variant) == ""
    (demo / "dlc.yml").write_text((demo / "dlc.yml").read_text().replace("einops", "einops, polars"))
    tree = read_workspace(workspace)
    tree, [variant] = lock_new_project(load_variants(tree, [IMAGE]), tree, workspace, args)
    assert "stale: the buildspec asks for" in explain_staleness(tree, variant)
    assert len(requests) == 1


def test_the_lock_of_a_released_image_is_the_checkouts_or_nobodys(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = read_workspace()
    [released, own] = load_variants(tree, [BASE, IMAGE])
    assert find_home(own, find_workspace()) == demo
    with pytest.raises(UsageError, match=r"expected buildspec/defaults\.yml"):
        find_home(released, find_workspace())
    monkeypatch.setattr(lock_images, "INSTALLED", demo / "recipes")
    with pytest.raises(UsageError, match=f"belongs to dlc {dlc.__version__}"):
        find_home(released, Workspace(demo / "recipes", demo))
    root = find_root(Path(__file__))
    monkeypatch.chdir(root / "docs")
    assert find_home(released, find_workspace()) == root


@pytest.mark.parametrize(
    ("words", "meant", "script"),
    [
        ([], IMAGE, "code/job.py"),
        (["other.py"], IMAGE, "other.py"),
        (["code/job.py", "--hosts", "2"], IMAGE, "code/job.py"),
        (["--source", "code", "job.py"], IMAGE, "job.py"),
        (["pytorch-2.13", "train.py"], "pytorch-2.13", "train.py"),
        (["dlc/pytorch:2.13"], "dlc/pytorch:2.13", None),
        (["job.yml"], "job.yml", None),
    ],
)
@pytest.mark.usefixtures("demo")
def test_a_job_has_the_projects_image_and_script_for_words_that_are_left_out(
    words: list[str], meant: str, script: str | None
) -> None:
    parser = argparse.ArgumentParser()
    run_job.add_arguments(parser)
    args = parser.parse_args(words)
    run_job.take_from_project(args)
    assert (args.image, args.script) == (meant, script)


def test_the_script_is_found_from_any_folder_of_the_project(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (demo / "notes").mkdir()
    monkeypatch.chdir(demo / "notes")
    args = argparse.Namespace(image=None, script=None, source="")
    run_job.take_from_project(args)
    assert args.script == "../code/job.py"


def test_recipes_of_a_wheel_are_of_its_version_and_of_no_commit_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment often lies in a checkout of something else."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert read_revision(checkout.INSTALLED) == (f"dlc-{dlc.__version__}", 0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert read_revision(checkout.INSTALLED) == (f"dlc-{dlc.__version__}", 1790000000)
