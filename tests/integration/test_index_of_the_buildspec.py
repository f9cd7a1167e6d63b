"""An image with a local version is built from the index that its buildspec names, with none of the user's own set."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.errors import PackageIndexError
from harness import toy
from harness.engine import docker
from harness.package_index import PackageIndex

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-indexed"
REF = toy.ref(REPOSITORY)
SETTINGS = 'indexes: {special: {address: "http://127.0.0.1:9/simple", packages: [dlc-local]}}'
MIRROR = "DLC_INDEX_SPECIAL"
OWN = ("UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL", MIRROR)
PASSWORD = "s3cret-of-the-mirror"


@pytest.fixture(autouse=True)
def an_ordinary_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def public(engine: None, tmp_path: Path) -> Iterator[PackageIndex]:
    """In place of the public index, where containers reach it: without the local version."""
    (tmp_path / "public").mkdir()
    server = PackageIndex(tmp_path / "public")
    server.add("dlc-ordinary", "1.0", uuid.uuid4().hex)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def special(tmp_path: Path) -> Iterator[PackageIndex]:
    """On this host's loopback, where no container reaches it."""
    (tmp_path / "special").mkdir()
    server = PackageIndex(tmp_path / "special", "127.0.0.1")
    server.add("dlc-local", "1.17.0+cpu", uuid.uuid4().hex)
    server.add("dlc-ordinary", "9.0", "not the one")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def variables(public: PackageIndex, special: PackageIndex) -> dict[str, str]:
    """What reaches the public index, and a mirror of the other with a password."""
    hosts = f"{public.host},{special.host}"
    mirror = special.address.replace("http://", f"http://me:{PASSWORD}@")
    return {**public.variables, MIRROR: mirror, "no_proxy": hosts, "NO_PROXY": hosts}


@pytest.fixture
def checkout(variables: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "checkout"
    toy.make_checkout(root, REPOSITORY, "dlc-local==1.17.0+cpu", "dlc-ordinary==1.0", SETTINGS, **variables)
    yield root
    docker("image", "rm", "--force", REF, check=False)


def build(root: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return toy.dlc(root, "build", "toy-*", **variables)


def packages_asked(index: PackageIndex) -> set[str]:
    return {path.split("/")[2] for path in index.asked if path.startswith("/simple/")}


def test_the_image_is_built_from_the_mirror_and_its_password_stays_on_this_host(
    checkout: Path, special: PackageIndex, variables: dict[str, str]
) -> None:
    done = build(checkout, variables)
    assert done.returncode == 0, done.stderr
    ran = docker("run", "--rm", REF, "python", "-c", "import dlc_local, dlc_ordinary; print('works')")
    assert ran.stdout == "works\n"
    assert packages_asked(special) == {"dlc-local"}
    seen = docker("history", "--no-trunc", REF).stdout + docker("image", "inspect", REF).stdout
    assert PASSWORD not in seen + done.stdout + done.stderr
    assert all(PASSWORD not in path.read_text() for path in (checkout / "docker/toy").rglob("*.txt"))


def test_the_users_own_folder_comes_first(checkout: Path, special: PackageIndex, variables: dict[str, str]) -> None:
    special.asked.clear()
    special.stop()
    done = build(checkout, {**variables, "UV_FIND_LINKS": str(special.folder / "files")})
    assert done.returncode == 0, done.stderr
    assert special.asked == []


def test_without_the_index_nothing_is_built_and_the_message_names_every_place(
    checkout: Path, public: PackageIndex, special: PackageIndex, variables: dict[str, str]
) -> None:
    special.stop()
    done = build(checkout, variables)
    assert done.returncode == PackageIndexError.exit_code, done.stderr
    assert "dlc-local==1.17.0+cpu: expected a wheel with the lock's hash, found none" in done.stderr
    assert f"{public.address}: " in done.stderr
    assert f"{special.address}: does not answer" in done.stderr
    assert f"remedy: name a mirror of the index special in {MIRROR}" in done.stderr
    assert "RUN" not in done.stderr
    assert PASSWORD not in done.stderr
