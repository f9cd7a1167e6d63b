"""A job's code is the same files wherever the job goes: copied for a host of this machine, or packed."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dlc.core.errors import DlcError
from dlc.job.code_files import copy_code, write_archive

Get = Callable[[tuple[Path, ...], Path], Path]


def copy(code: tuple[Path, ...], folder: Path) -> Path:
    folder.mkdir()
    copy_code(code, folder / "code", folder / "results")
    return folder / "code"


def unpack(code: tuple[Path, ...], folder: Path) -> Path:
    packed = io.BytesIO()
    write_archive(code, packed)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 of Debian 12 has none
        archive.extractall(folder / "code")
    return folder / "code"


@pytest.fixture(params=[copy, unpack], ids=["copied", "packed"])
def get(request: pytest.FixtureRequest) -> Get:
    found: Get = request.param
    return found


def list_all(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def test_one_rule_says_what_is_code_and_what_becomes_of_links(get: Get, tmp_path: Path) -> None:
    source, outside = tmp_path / "source", tmp_path / "outside"
    left_out = (".git/config", ".venv/x", "dlc-jobs/j/model", "lib/__pycache__/a.pyc")
    for name in ("train.py", "lib/a.py", "native/.git/config", *left_out):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (outside / "deep").mkdir(parents=True)
    (outside / "deep/data.csv").write_text("1")
    (source / "empty").mkdir()
    (source / "run.sh").write_text("")
    (source / "run.sh").chmod(0o755)
    os.mkfifo(source / "debugger.pipe")
    links = {"again.py": "lib/a.py", "lib/up.py": "../train.py", "outer": str(outside), "near": "../outside/deep",
             ".#train.py": "me@host.123", "absolute.py": str(source / "train.py")}  # fmt: skip
    for name, to in links.items():
        (source / name).symlink_to(to)
    found = get((source,), tmp_path / "host")
    assert list_all(found) == sorted(
        ["train.py", "lib/a.py", "native/.git/config", "run.sh", "again.py", "lib/up.py", "outer/deep/data.csv",
         "near/data.csv", "absolute.py"]
    )  # fmt: skip
    assert {name for name in list_all(found) if (found / name).is_symlink()} == {"again.py", "lib/up.py"}
    assert (found / "lib/up.py").read_text() == "train.py"
    assert (found / "absolute.py").read_text() == "train.py"
    assert (found / "empty").is_dir()
    assert os.access(found / "run.sh", os.X_OK)


def test_single_files_lie_side_by_side(get: Get, tmp_path: Path) -> None:
    for path in ("one/train.py", "two/train_data.py"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(path)
    found = get((tmp_path / "one/train.py", tmp_path / "two/train_data.py"), tmp_path / "host")
    assert list_all(found) == ["train.py", "train_data.py"]


def test_a_link_to_a_folder_above_itself_is_an_error(get: Get, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/up").symlink_to(tmp_path)
    with pytest.raises(DlcError, match="it leads to a folder above itself"):
        get((tmp_path / "code",), tmp_path / "host")


def test_the_archive_has_the_same_bytes_for_the_same_files(tmp_path: Path) -> None:
    packed = []
    for name in ("one", "two"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "train.py").write_text("x")
        (tmp_path / name / "lib/a.py").symlink_to("../train.py")
        packed.append(io.BytesIO())
        write_archive((tmp_path / name,), packed[-1])
    assert packed[0].getvalue() == packed[1].getvalue()
