"""What is wrong with an input is said once, with an exit code of its own; the next run goes on from what was done."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc.core.checkout import read_tree
from dlc.core.environment import cache_folder
from dlc.core.errors import BaseImageError, DiskError, LockError, PackageIndexError
from dlc.debian import rootfs, suites
from harness import toy
from harness.engine import docker
from harness.package_index import PackageIndex

pytestmark = pytest.mark.integration

REPOSITORY = "dlc-bad"
REF = toy.ref(REPOSITORY)
TOO_LARGE = "budget.gigabytes=1000000"
ALPINE = "dlc-bad-base:1"
# The line of the first package in the progress, once it is done.
DONE_BEFORE = "RUN /scripts/python-packages/install.sh /lock/framework.txt"


@pytest.fixture
def index(engine: None, tmp_path: Path) -> Iterator[PackageIndex]:
    server = PackageIndex(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def number() -> str:
    """The content of this test's packages: no other test and no other run has them in a cache."""
    return uuid.uuid4().hex


@pytest.fixture
def checkout(index: PackageIndex, number: str, tmp_path: Path) -> Iterator[Path]:
    """An image of two packages, in a layer each."""
    index.add("dlc-bad-one", "1.17.0", number)
    index.add("dlc-bad-two", "1.17.0", number)
    root = tmp_path / "checkout"
    toy.make_checkout(root, REPOSITORY, "dlc-bad-one==1.17.0", "dlc-bad-two==1.17.0", **index.variables)
    yield root
    docker("image", "rm", "--force", REF, check=False)


def build(root: Path, index: PackageIndex, *words: str) -> subprocess.CompletedProcess[str]:
    return toy.dlc(root, "build", "toy-*", *words, **index.variables)


def require_clear(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One message with these words and a remedy, and the exit code of its class."""
    assert done.returncode == code, done.stderr
    for word in (*words, "remedy: "):
        assert word in done.stderr
    assert "Traceback" not in done.stderr


def require_resumed(root: Path, index: PackageIndex, *cached: str) -> None:
    """The same build succeeds now, without a step that was done before, and its image works."""
    done = build(root, index)
    assert done.returncode == 0, done.stderr
    for step in cached:
        assert step not in done.stderr
    ran = docker("run", "--rm", REF, "python", "-c", "import dlc_bad_one, dlc_bad_two; print('works')")
    assert ran.stdout == "works\n"


def test_a_file_with_another_hash_than_the_locks_is_not_installed(
    checkout: Path, index: PackageIndex, number: str
) -> None:
    index.add("dlc-bad-two", "1.17.0", "tampered with")
    done = build(checkout, index)
    require_clear(
        done,
        LockError.exit_code,
        "Hash mismatch for `dlc-bad-two==1.17.0`",
        "expected the file with the lock's hash",
        DONE_BEFORE,
    )
    index.add("dlc-bad-two", "1.17.0", number)
    require_resumed(checkout, index, DONE_BEFORE)


def test_a_wheel_that_vanished_is_named(checkout: Path, index: PackageIndex) -> None:
    content = index.folder / "simple/dlc-bad-two/index.html"
    page = content.read_text()
    content.write_text("")
    require_clear(build(checkout, index), LockError.exit_code, "dlc-bad-two", "found it in no index", DONE_BEFORE)
    content.write_text(page)
    require_resumed(checkout, index, DONE_BEFORE)


def test_a_build_that_the_disk_can_not_hold_does_not_start(checkout: Path, index: PackageIndex) -> None:
    done = build(checkout, index, "--set", TOO_LARGE)
    require_clear(done, DiskError.exit_code, "GB free for this build, found", toy.ID, "--no-disk-check")
    assert "RUN" not in done.stderr
    require_resumed(checkout, index)


def test_who_knows_better_than_the_prediction_can_build(checkout: Path, index: PackageIndex) -> None:
    assert build(checkout, index, "--no-disk-check", "--set", TOO_LARGE).returncode == 0


@pytest.fixture
def another_distribution(checkout: Path) -> Iterator[str]:
    """Our own Debian made to look like an image of Alpine: another name, and no apt."""
    recorded = suites.read_recorded(read_tree(checkout), "bookworm")
    tar = rootfs.make_rootfs("bookworm", recorded, cache_folder()) / "rootfs.tar"
    docker("import", "--change", 'CMD ["/bin/sh"]', str(tar), ALPINE)
    name = f"dlc-bad-{uuid.uuid4().hex[:8]}"
    try:
        docker("run", "--name", name, ALPINE, "sh", "-c", "rm /usr/bin/apt-get && echo ID=alpine > /etc/os-release")
        docker("commit", name, ALPINE)
        yield ALPINE
    finally:
        docker("rm", "--force", name, check=False)
        docker("image", "rm", "--force", ALPINE, check=False)


def test_a_base_image_of_another_distribution_is_refused(
    checkout: Path, index: PackageIndex, another_distribution: str
) -> None:
    done = build(checkout, index, "--set", f"base.image={another_distribution}")
    require_clear(
        done, BaseImageError.exit_code, "base.image: expected Debian or Ubuntu, found an image without apt-get"
    )
    # Several targets have this step, and BuildKit says it once, of any of them.
    assert re.search(r"toy-\S* (base 1/2|tools 1/\d) failed", done.stderr)


def test_an_index_that_goes_away_half_way_is_said_and_the_next_run_resumes(checkout: Path, index: PackageIndex) -> None:
    index.stop()
    index.start(last="dlc-bad-one")
    done = build(checkout, index)
    require_clear(
        done, PackageIndexError.exit_code, "a package index or mirror does not answer", "dlc-bad-two", DONE_BEFORE
    )
    index.start()
    require_resumed(checkout, index, DONE_BEFORE)
