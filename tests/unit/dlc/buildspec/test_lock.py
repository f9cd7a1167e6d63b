"""buildspec.locks.resolve: one resolution, split into the files that the Dockerfiles install."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlc.buildspec import cuda_efa
from dlc.buildspec.lockfile import FILES, parse_versions
from dlc.buildspec.locks import resolve
from dlc.buildspec.locks.resolve import list_unused_settings, make_uv_environment, split_lock, store_lock
from dlc.cli import run
from dlc.core import atomic_files
from dlc.core.checkout import read_tree
from dlc.core.environment import local_wheel_folders
from dlc.core.errors import LockError
from dlc.plan.plan import make_plan
from harness.specimen import TORCH_ID, specimen, write_tree

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
    texts = split_lock(LOCK, {"framework": ["torch"], "source": ["Sagemaker_Training"]})
    assert texts["framework.txt"] == "torch==2.13.0+cpu \\\n    --hash=sha256:cc\n"
    assert texts["source.txt"] == "sagemaker-training==5.1.4 \\\n    --hash=sha256:ee\n"
    assert "--hash=sha256:aa \\\n    --hash=sha256:bb\n" in texts["training.txt"]
    assert sorted(line for text in texts.values() for line in text.splitlines()) == sorted(LOCK.splitlines())


def test_libraries_of_cuda_that_frameworks_share_have_a_file_of_their_own() -> None:
    assert cuda_efa.shared_packages(["torch", "nvidia-cublas-cu12", "nvidia-cufft"]) == [
        "nvidia-cublas-cu12",
        "nvidia-cufft",
    ]
    assert cuda_efa.shared_packages(["nvidia-nccl-cu12", "nvidia-cufft", "nvidia-cudnn-cu13"]) == ["nvidia-cufft"]
    lock = "nvidia-cublas-cu12==12.8.4.1\ntorch==2.9.1\n"
    texts = split_lock(
        lock, {"framework": list(parse_versions(lock)), "cuda": cuda_efa.shared_packages(parse_versions(lock))}
    )
    assert (texts["cuda.txt"], texts["framework.txt"]) == ("nvidia-cublas-cu12==12.8.4.1\n", "torch==2.9.1\n")


def test_file_without_entries_is_empty() -> None:
    assert split_lock(LOCK, {"framework": ["torch"], "source": []})["source.txt"] == ""


def test_names_are_compared_as_indexes_compare_them() -> None:
    assert list(parse_versions(LOCK)) == ["my-pkg", "torch", "zope-interface", "sagemaker-training"]


def test_local_wheel_folders_come_from_both_clients_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path}/a,https://example.org/links")
    monkeypatch.setenv("PIP_FIND_LINKS", f"file://{tmp_path}/b {tmp_path}/a {tmp_path}/missing")
    assert local_wheel_folders() == [tmp_path / "a", tmp_path / "b"]


def test_a_folder_may_have_spaces_a_home_and_an_escaped_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my wheels"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("UV_FIND_LINKS", f" {folder} , ~/my wheels,{folder.as_uri()},file://localhost{tmp_path}")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert local_wheel_folders() == [folder, tmp_path]


def test_places_that_are_no_folders_are_said_without_their_passwords(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", "/no/such/folder,~no-such-user/x")
    monkeypatch.setenv("PIP_FIND_LINKS", "https://me:hunter2@wheels.example/page.html")
    assert run(["lock", "pytorch-*"]) == 0
    said = capsys.readouterr().err
    assert "UV_FIND_LINKS: expected folders, found /no/such/folder, which is passed over" in said
    assert "PIP_FIND_LINKS: expected folders, found https://wheels.example/page.html, which is passed over" in said


def texts(word: str) -> dict[str, str]:
    return {name: f"{word} {name}\n" for name in FILES}


def test_the_files_of_a_lock_are_replaced_together_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "locks" / "an-image"
    store_lock(texts("old"), folder)
    (folder / "left-over.txt").write_text("of an older release of dlc")
    store_lock(texts("new"), folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == texts("new")
    assert [path.name for path in folder.parent.rglob("*") if path.parent != folder] == ["an-image", ".drafts"]


def test_a_lock_that_cannot_be_written_whole_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "an-image"
    store_lock(texts("old"), folder)
    with pytest.raises(OSError, match="no-such-folder"):
        store_lock({**texts("new"), "no-such-folder/last.txt": ""}, folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == texts("old")
    assert [path.name for path in tmp_path.rglob("*") if path.parent != folder] == ["an-image", ".drafts"]


def test_a_file_system_that_cannot_exchange_folders_gets_the_lock_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        atomic_files, "RENAME_EXCHANGE", 1 << 30
    )  # the kernel refuses it with EINVAL, as file systems do
    folder = tmp_path / "an-image"
    store_lock(texts("old"), folder)
    (folder / "left-over.txt").write_text("of an older release of dlc")
    store_lock(texts("new"), folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == texts("new")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The specimen as files; resolving gives what was asked for and nothing more."""
    write_tree(specimen(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        resolve, "resolve_packages", lambda _, requirements, *limits: "".join(f"{pin}\n" for pin in requirements)
    )
    return tmp_path


def test_a_lock_with_set_leaves_the_committed_one_and_the_same_set_finds_it(checkout: Path) -> None:
    committed = read_tree(checkout)
    sets = ["packages.training=[numpy]"]
    with pytest.raises(LockError) as caught:
        make_plan(committed, ["pytorch-*"], sets)
    assert caught.value.remedy == "dlc lock 'pytorch-*' --set 'packages.training=[numpy]'"
    assert run(["lock", "pytorch-*", "--set", *sets]) == 0
    after = read_tree(checkout)
    assert {path: after[path] for path in committed} == committed
    assert make_plan(after, ["pytorch-*"], sets).selected == (TORCH_ID,)
    assert make_plan(after).selected == make_plan(committed).selected


def test_variables_that_change_a_resolution_do_not_reach_uv_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    changing = (
        "UV_CONSTRAINT",
        "UV_EXCLUDE_NEWER",
        "UV_OVERRIDE",
        "UV_PRERELEASE",
        "UV_TORCH_BACKEND",
    )
    transport = ("UV_CACHE_DIR", "UV_HTTP_TIMEOUT", "UV_INDEX_MINE_PASSWORD", "UV_SYSTEM_CERTS")
    for name in (*changing, *transport):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://index.example/simple")
    given = make_uv_environment()
    assert [given[name] for name in changing] == [None] * len(changing)
    assert not set(transport) & set(given)
    assert given["UV_DEFAULT_INDEX"] == "https://index.example/simple"
    said = list_unused_settings()
    assert [line.partition(" ")[0] for line in said] == list(changing)
    assert said[0] == "UV_CONSTRAINT is not used: what a lock has to hold is in the buildspec"
