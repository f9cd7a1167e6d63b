"""The cache of compiled code: used again by the next job, and never a reason for a job to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc_runtime.compiler.cache import bounded, machine
from dlc_runtime.compiler.cache import folder as cache
from harness.compile_cache import KEY, fill


def test_each_image_and_machine_has_a_subfolder(tmp_path: Path) -> None:
    one = cache.choose(str(tmp_path), machine.key(KEY), 1, [])
    other = cache.choose(str(tmp_path), machine.key({"DLC_CONTENT_KEY": "fedcba9876543210"}), 1, [])
    assert one != other
    assert Path(one).name.startswith("0123456789ab-")
    assert machine.digest(machine.cpu()) in one


def test_a_cache_of_other_machines_only_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "another").mkdir()
    warnings: list[str] = []
    assert cache.choose(str(tmp_path), "mine", 1, warnings) == str(tmp_path / "mine")
    assert "holds code of 1 other images or machines and none for this one (mine)" in warnings[0]
    assert cache.choose(str(tmp_path), "mine", 1, later := []) == str(tmp_path / "mine")
    assert later == []


def test_a_file_where_the_cache_should_be_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    chosen = Path(cache.choose(str(tmp_path / "file"), "mine", 1, warnings))
    assert chosen.is_dir()
    assert "the cache cannot be written" in warnings[0]
    chosen.rmdir()


def test_the_longest_unused_files_go_first(tmp_path: Path) -> None:
    old = fill(tmp_path, "a/old", 600, 1.0)
    middle = fill(tmp_path, "b/middle", 600, 2.0)
    new = fill(tmp_path, "a/new", 600, 3.0)
    assert bounded.prune(str(tmp_path), 1300) == 600
    assert [path.exists() for path in (old, middle, new)] == [False, True, True]


def test_children_use_their_parents_folder(tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path), **KEY}
    parent = cache.use(environ)
    child = cache.use(environ)
    assert parent["folder"] == child["folder"] == environ["TORCHINDUCTOR_CACHE_DIR"]


def test_a_wrong_size_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = cache.use({"DLC_COMPILE_CACHE": str(tmp_path), "DLC_COMPILE_CACHE_GB": "big", **KEY})
    assert found["warnings"] == ["DLC_COMPILE_CACHE_GB=big: expected a number above 0; 10 is used"]
    assert "DLC_COMPILE_CACHE_GB=big" in capsys.readouterr().err
