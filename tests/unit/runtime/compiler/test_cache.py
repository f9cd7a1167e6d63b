"""The cache of compiled code: used again by the next job, and never a reason for a job to fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dlc_runtime.compiler.cache import cache_digests, cache_folder, machine
from harness.compile_cache import KEY, fill


def test_each_image_and_machine_has_a_subfolder(tmp_path: Path) -> None:
    one = cache_folder.choose_folder(str(tmp_path), machine.key_of(KEY), 1, [])
    other = cache_folder.choose_folder(str(tmp_path), machine.key_of({"DLC_CONTENT_KEY": "fedcba9876543210"}), 1, [])
    assert one != other
    assert Path(one).name.startswith("0123456789ab-")
    assert machine.digest(machine.cpu_features()) in one


def test_a_cache_of_other_machines_only_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "another").mkdir()
    warnings: list[str] = []
    assert cache_folder.choose_folder(str(tmp_path), "mine", 1, warnings) == str(tmp_path / "mine")
    assert "holds code of 1 other images or machines and none for this one (mine)" in warnings[0]
    assert cache_folder.choose_folder(str(tmp_path), "mine", 1, later := []) == str(tmp_path / "mine")
    assert later == []


def test_a_file_where_the_cache_should_be_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    chosen = Path(cache_folder.choose_folder(str(tmp_path / "file"), "mine", 1, warnings))
    assert chosen.is_dir()
    assert "the cache cannot be written" in warnings[0]
    chosen.rmdir()


def test_the_longest_unused_files_go_first(tmp_path: Path) -> None:
    old = fill(tmp_path, "a/old", 600, 1.0)
    middle = fill(tmp_path, "b/middle", 600, 2.0)
    new = fill(tmp_path, "a/new", 600, 3.0)
    assert cache_folder.prune(str(tmp_path), 1300) == 600
    assert [path.exists() for path in (old, middle, new)] == [False, True, True]


def test_children_use_their_parents_folder(tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path), **KEY}
    parent = cache_folder.use_cache(environ)
    child = cache_folder.use_cache(environ)
    assert parent["folder"] == child["folder"] == environ["TORCHINDUCTOR_CACHE_DIR"]


def test_a_wrong_size_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = cache_folder.use_cache({"DLC_COMPILE_CACHE": str(tmp_path), "DLC_COMPILE_CACHE_GB": "big", **KEY})
    assert found["warnings"] == ["DLC_COMPILE_CACHE_GB=big: expected a number above 0; 10 is used"]
    assert "DLC_COMPILE_CACHE_GB=big" in capsys.readouterr().err


def noted(folder: Path) -> list[Path]:
    """A cache of three files, two of them in one folder, with their digests."""
    found = [fill(folder, name, 100, 1.0) for name in ("ab/code.so", "ab/code.cpp", "cd/other.so")]
    cache_digests.note_digests(str(folder))
    return found


def test_a_cache_that_nothing_happened_to_is_left_as_it_is(tmp_path: Path) -> None:
    files = noted(tmp_path)
    assert cache_digests.delete_damaged(str(tmp_path), alone=True) == []
    assert all(file.exists() for file in files)


@pytest.mark.parametrize("content", [b"", b"x" * 50, b"x" * 99 + b"y"])
def test_a_damaged_file_goes_with_what_lies_beside_it(tmp_path: Path, content: bytes) -> None:
    files = noted(tmp_path)
    files[0].write_bytes(content)
    warnings: list[str] = []
    cache_folder.remove_damaged(str(tmp_path), warnings)
    assert [file.exists() for file in files] == [False, False, True]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"the cache {tmp_path} held 1 files that are not as a job left them, such as ab/code.so"
    )
    assert cache_digests.delete_damaged(str(tmp_path), alone=True) == []


def test_a_copied_cache_is_checked_by_its_content(tmp_path: Path) -> None:
    noted(tmp_path / "old")
    new = shutil.copytree(tmp_path / "old", tmp_path / "new")
    assert cache_digests.delete_damaged(str(new), alone=True) == []
    (new / "cd/other.so").write_bytes(b"y" * 100)
    assert cache_digests.delete_damaged(str(new), alone=True) == ["cd/other.so"]


def test_what_a_job_writes_anew_is_noted_anew(tmp_path: Path) -> None:
    first, _, _ = noted(tmp_path)
    first.write_bytes(b"another content")
    cache_digests.note_digests(str(tmp_path))
    assert cache_digests.delete_damaged(str(tmp_path), alone=True) == []
    assert first.exists()


def test_a_list_of_digests_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    files = noted(tmp_path)
    digests = tmp_path / cache_digests.NAME
    digests.write_bytes(digests.read_bytes()[:-20])
    assert len(cache_digests.read_digests(str(tmp_path))) == 2
    assert cache_digests.delete_damaged(str(tmp_path), alone=False) == []
    cache_digests.note_digests(str(tmp_path))
    assert len(cache_digests.read_digests(str(tmp_path))) == 3
    assert all(file.exists() for file in files)


def test_code_that_nobody_has_noted_goes_if_no_other_job_writes_it(tmp_path: Path) -> None:
    noted(tmp_path)
    code, way = fill(tmp_path, "ef/new.so", 100, 1.0), fill(tmp_path, "chosen/way.json", 100, 1.0)
    assert cache_digests.delete_damaged(str(tmp_path), alone=False) == []
    assert cache_digests.delete_damaged(str(tmp_path), alone=True) == ["ef/new.so"]
    assert [code.exists(), way.exists()] == [False, True]


def test_a_cache_that_cannot_be_noted_is_no_error(tmp_path: Path) -> None:
    fill(tmp_path, "chosen/way.json", 100, 1.0)
    (tmp_path / cache_digests.NAME).mkdir()
    cache_digests.note_digests(str(tmp_path))
    assert cache_digests.delete_damaged(str(tmp_path), alone=True) == []
