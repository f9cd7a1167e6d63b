"""Packages by address: which wheel and which commit a lock gets, from real git repositories and a server of files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.buildspec.locks import direct, resolve
from dlc.core.digests import hash_file
from dlc.core.errors import LockError
from harness.git_package import Repository
from harness.package_index import PackageIndex

pytestmark = pytest.mark.core


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PackageIndex]:
    running = PackageIndex(tmp_path, "127.0.0.1")
    running.start()
    yield running
    running.stop()


def request(*training: str) -> resolve.LockRequest:
    return resolve.LockRequest(("dlc-flow==1",), training, (), (), "3.11", "2.36", "sha256:00")


def get_wheel(requirement: str) -> tuple[direct.DirectWheel, resolve.LockRequest]:
    with direct.with_wheels(request(requirement)) as (asked, [wheel]):
        return wheel, asked


def test_a_branch_and_a_tag_become_the_commit_that_they_mean_now(repository: Repository) -> None:
    first = repository.commit("0.1")
    repository.git("tag", "--annotate", "--message", "first", "v0.1")
    second = repository.commit("0.2")
    for revision, commit, version in (("@v0.1", first, "0.1"), ("@main", second, "0.2"), ("", second, "0.2"),
                                      (f"@{first}", first, "0.1")):  # fmt: skip
        wheel, asked = get_wheel(f"Tiny[extra] @ {repository.address}{revision}")
        assert asked.training == (f"Tiny[extra]=={version}",)
        assert wheel.pin == ("tiny", version)
        assert wheel.entry.endswith(f"# from {repository.address}@{commit}")


def test_one_commit_is_one_wheel_and_is_kept_with_the_lock(repository: Repository) -> None:
    repository.commit("0.1")
    first, second = (get_wheel(f"tiny @ {repository.address}")[0] for _ in range(2))
    assert first.sha256 == second.sha256
    assert first.is_kept


@pytest.mark.parametrize(
    ("revision", "said"), [("@nowhere", "expected a commit of nowhere"), (f"@{'0' * 40}", "no wheel can be had")]
)
def test_a_revision_that_is_not_there_is_named(repository: Repository, revision: str, said: str) -> None:
    repository.commit("0.1")
    with pytest.raises(LockError, match=said):
        get_wheel(f"tiny @ {repository.address}{revision}")


def test_sources_that_compile_code_are_refused(repository: Repository) -> None:
    repository.commit("0.1", "cp311-cp311-linux_x86_64")
    with pytest.raises(LockError, match="its sources compile code"):
        get_wheel(f"tiny @ {repository.address}")


def test_a_wheel_is_taken_by_its_hash_and_named_by_its_address(server: PackageIndex) -> None:
    file = server.add("tiny", "1.5")
    address = f"http://127.0.0.1:{server.port}/files/{file.name}"
    wheel, asked = get_wheel(f"tiny @ {address}#sha256={hash_file(file)}")
    assert (asked.training, wheel.sha256, wheel.address) == (("tiny==1.5",), hash_file(file), address)
    assert not wheel.is_kept
    with pytest.raises(LockError, match="no wheel can be had"):
        get_wheel(f"tiny @ {address}#sha256={'0' * 64}")


def test_the_lock_has_the_hash_of_that_wheel_alone(repository: Repository, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """An index may have another file of the same version."""
    repository.commit("0.1")
    own = PackageIndex(tmp_path / "own", "127.0.0.1")
    own.folder.mkdir()
    for name, version in (("tiny", "0.1"), ("dlc-flow", "1")):
        own.add(name, version, "of the index")
    own.start()
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.variables.items():
        monkeypatch.setenv(name, value)
    try:
        with direct.with_wheels(request(f"tiny @ {repository.address}")) as (asked, [wheel]):
            texts = resolve.make_lock(asked)
            with zipfile.ZipFile(wheel.path) as archive:
                assert archive.read("tiny.py") == b"version = '0.1'\n"
    finally:
        own.stop()
    assert wheel.entry in texts["training.txt"]
    assert texts["training.txt"].count("--hash=") == 1
