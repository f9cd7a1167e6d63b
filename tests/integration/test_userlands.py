"""The systems that the README names: on a minimal one of each, `make image` and `make test` as they stand there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlc.core import labels
from harness.engine import docker
from harness.first_page import follow_page, make_release, write_empty_dump
from harness.userland import SYSTEMS, Userland, open_userland

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(5 * 3600)]
IMAGE = "dlc/pytorch:2.13-training-cpu-py311"
IMAGE_SECONDS, TEST_SECONDS = 3600.0, 3 * 3600.0
SOCKET = "unix:///root/.cache/dlc/engine/docker.sock"
PACKAGES = ("run", "--rm", "--entrypoint", "dpkg-query", IMAGE, "--show")


@pytest.mark.parametrize("suite", SYSTEMS)
def test_image_and_tests_are_the_same_on_each_system_of_the_readme(suite: str, tmp_path: Path) -> None:
    with open_userland(suite, tmp_path) as userland:
        assert userland.run("make image", IMAGE_SECONDS) == 0, userland.tail
        compare_with_ours(userland)
        assert userland.run("make test OPTIONS=-rs", TEST_SECONDS) == 0, userland.tail


def test_the_page_of_the_first_image_on_an_empty_system(tmp_path: Path) -> None:
    release, dump = make_release(tmp_path), tmp_path / "all.zip"
    checksum = write_empty_dump(dump)
    with open_userland("noble", tmp_path) as userland:
        userland.copy(release, "/root/release")
        userland.copy(dump, "/root/all.zip")
        follow_page(userland.typing("/root/release", DLC_OSV_DUMP=f"/root/all.zip{checksum}"))


def compare_with_ours(userland: Userland) -> None:
    """Content key, Debian packages and the digest of each layer; the labels of a build also name its commit."""
    theirs, ours = (json.loads(text)[0] for text in (inspect(userland), docker("image", "inspect", IMAGE).stdout))
    assert theirs["Config"]["Labels"][labels.KEY] == ours["Config"]["Labels"][labels.KEY]
    packages = userland.ask(f"docker --host {SOCKET} {' '.join(PACKAGES)}")
    assert packages == docker(*PACKAGES).stdout, (
        "Debian's mirror moved since this host's image was built: build it again"
    )
    assert theirs["RootFS"]["Layers"] == ours["RootFS"]["Layers"], (
        "if Debian moved packages that only compile, this host's build cache is older: docker builder prune --all"
    )


def inspect(userland: Userland) -> str:
    return userland.ask(f"docker --host {SOCKET} image inspect {IMAGE}")
