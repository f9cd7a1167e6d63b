"""`dlc init` writes a project whose files agree, or nothing."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from dlc.__main__ import main
from dlc.buildspec.lockfile import ALL_FILES, explain_staleness
from dlc.buildspec.matrix import load_variants
from dlc.cli.init import DEFAULT, make_name
from dlc.core.atomic_files import write_new_files
from dlc.core.checkout import find_workspace, read_workspace
from dlc.core.errors import DiskError, SelectorError, UsageError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_new_project_is_planned_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "demo"]) == 0
    locks = [f"locks/{DEFAULT}-demo/{name}" for name in ALL_FILES]
    assert names(here / "demo") == sorted([".gitignore", "dlc.yml", "train.py", *locks])
    assert "next: cd demo && dlc build && dlc run" in capsys.readouterr().out
    tree = read_workspace(find_workspace(here / "demo"))
    [variant] = load_variants(tree, ["*-demo"])
    assert explain_staleness(tree, variant) == ""
    compile((here / "demo/train.py").read_text(), "train.py", "exec")


def test_in_its_folder_verbs_without_a_name_mean_its_image(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", ".", "--name", "mine"]) == 0
    (here / "code").mkdir()
    monkeypatch.chdir(here / "code")
    capsys.readouterr()
    for verb, words in {"list": ["--ids"], "show": ["--ref"], "plan": []}.items():
        assert main([verb, *words]) == 0
        assert "2.13-training-cpu-py311-mine" in capsys.readouterr().out, verb
    assert main(["list", "--ids", "tensorflow-2.21-*-cpu-*"]) == 0
    assert capsys.readouterr().out == "tensorflow-2.21-training-cpu-py311\n"


def test_with_packages_the_lock_is_for_the_build_to_make(here: Path) -> None:
    assert main(["init", "demo", "--package", "einops", "--package", "numpy==2.4.6"]) == 0
    assert names(here / "demo") == [".gitignore", "dlc.yml", "train.py"]
    assert 'packages: ["einops", "numpy==2.4.6"]' in (here / "demo/dlc.yml").read_text()


def test_a_script_that_is_there_stays(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text("mine")
    assert main(["init"]) == 0
    assert (here / "train.py").read_text() == "mine"
    assert "train.py: there already, left as it is" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "pytorch-2.13-training-cpu-py31"], SelectorError.exit_code, f"did you mean '{DEFAULT}'?"),
        (["--from", "debian:12"], UsageError.exit_code, "expected an image of `dlc list`, found a reference"),
        (["--name", "UP"], UsageError.exit_code, "expected a name in lower case, digits and dashes"),
        (["--package", "torch==2.0.0"], UsageError.exit_code, "expected no package that"),
        (["--package", "a>=1.x"], UsageError.exit_code, "expected a requirement that Python packages may have"),
        (["--from", "pytorch-2.9-training-cu128-py311", "--name", "xla"], UsageError.exit_code, "found 'xla'"),
    ],
)
def test_wrong_words_write_nothing(
    here: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "demo", *words]) == code
    assert said in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_a_project_is_not_made_twice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "dlc.yml").write_text("mine")
    assert main(["init"]) == UsageError.exit_code
    assert "this folder is a project already" in capsys.readouterr().err
    assert names(here) == ["dlc.yml"]


def test_a_file_is_no_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "demo").write_text("")
    assert main(["init", "demo"]) == UsageError.exit_code
    assert "expected a folder that dlc can write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (errno.ENOSPC, DiskError.exit_code, "the disk is full"),
        (errno.EROFS, UsageError.exit_code, "expected a folder that dlc can write"),
        (errno.EACCES, UsageError.exit_code, "expected a folder that dlc can write"),
    ],
)
def test_a_disk_that_refuses_leaves_nothing(
    here: Path, number: int, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = Path.open

    def refuse(path: Path, mode: str = "r", **options: Any) -> object:
        if mode == "xb" and path.name == "dlc.yml":
            raise OSError(number, "refused", str(path))
        return opened(path, mode, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert main(["init", "deep/demo"]) == code
    assert said in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_files_that_others_made_meanwhile_are_neither_written_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("theirs")
    with pytest.raises(FileExistsError):
        write_new_files(tmp_path, {"new/a": "ours", "b": "ours"})
    assert names(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "theirs"


@pytest.mark.parametrize(("folder", "name"), [("My Model_2", "my-model-2"), ("...", "own"), ("a" * 60, "a" * 40)])
def test_a_folders_name_becomes_an_images(folder: str, name: str) -> None:
    assert make_name(folder) == name


@pytest.mark.parametrize("verb", ["build", "lock", "push --to registry.example/team", "show", "test"])
def test_outside_a_project_a_name_is_needed(
    here: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLC_ENGINE", "off")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{here}/none.sock")
    assert main(verb.split()) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "expected GLOB, or dlc.yml in this folder or one above it, found neither" in said
    assert "dlc init" in said
