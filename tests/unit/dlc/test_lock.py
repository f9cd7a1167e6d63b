"""locks.python: one resolution, cut into the files that the recipe installs in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.core.environment import local_wheel_folders
from dlc.locks.python import names, split

LOCK = """\
my-pkg==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
torch==2.13.0+cpu \\
    --hash=sha256:cc
Zope.Interface==8.7 ; python_version >= "3.9" \\
    --hash=sha256:dd
sagemaker-training==5.1.4 \\
    --hash=sha256:ee
"""


def test_every_entry_lands_in_exactly_one_file_with_all_its_hashes() -> None:
    texts = split(LOCK, {"framework": ["torch"], "source": ["Sagemaker_Training"]})
    assert texts["framework.txt"] == "torch==2.13.0+cpu \\\n    --hash=sha256:cc\n"
    assert texts["source.txt"] == "sagemaker-training==5.1.4 \\\n    --hash=sha256:ee\n"
    assert "--hash=sha256:aa \\\n    --hash=sha256:bb\n" in texts["training.txt"]
    assert sorted(line for text in texts.values() for line in text.splitlines()) == sorted(LOCK.splitlines())


def test_file_without_entries_is_empty() -> None:
    assert split(LOCK, {"framework": ["torch"], "source": []})["source.txt"] == ""


def test_names_are_compared_as_indexes_compare_them() -> None:
    assert names(LOCK) == ["my-pkg", "torch", "zope-interface", "sagemaker-training"]


def test_local_wheel_folders_come_from_both_clients_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path}/a,https://example.org/links")
    monkeypatch.setenv("PIP_FIND_LINKS", f"file://{tmp_path}/b {tmp_path}/a {tmp_path}/missing")
    assert local_wheel_folders() == [tmp_path / "a", tmp_path / "b"]
