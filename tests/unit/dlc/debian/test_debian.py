"""debian.suites: recorded versions decide what a base is made from, and a change of them changes what they reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc.buildspec.locks.updates import INSTALLED, list_debian_packages
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import SourceFile, find_root, read_tree
from dlc.core.digests import seal
from dlc.core.errors import LockError
from dlc.debian import rootfs, suites
from dlc.plan.plan import make_plan
from harness.specimen import TORCH_ID, changed, specimen, unlocked

FOUND = {"tini": "0.19.0-1", "libssl3": "3.0.17-1~deb12u2", "openssh-client": "1:9.2p1-2+deb12u7"}
ROOT = find_root(Path(__file__).parent)


def test_a_list_is_sorted_explained_and_read_as_it_was_written() -> None:
    text = suites.format_versions("bookworm", FOUND)
    assert text.startswith("# Debian packages of the bookworm images")
    assert text.splitlines()[3:] == ["libssl3=3.0.17-1~deb12u2", "openssh-client=1:9.2p1-2+deb12u7", "tini=0.19.0-1"]
    assert suites.parse_versions(text) == FOUND


def test_every_recorded_version_wins_over_newer_ones() -> None:
    stanzas = suites.make_preferences(FOUND).split("\n\n")
    assert stanzas[1] == "Package: libssl3\nPin: version 3.0.17-1~deb12u2\nPin-Priority: 1001"
    assert len(stanzas) == len(FOUND)


def test_a_change_of_a_suites_list_changes_the_keys_of_its_images_and_of_no_others() -> None:
    tree = specimen()
    keys = {target.id: target.key for target in make_plan(tree).targets}
    other = make_plan(changed(tree, suites.versions_path("trixie"), "libc6=2.41-12\n"))
    assert {target.id: target.key for target in other.targets} == keys
    own = make_plan(changed(tree, suites.versions_path("bookworm"), "libc6=2.36-10\n"))
    assert all(own.target(identifier).key != keys[identifier] for identifier in ("rootfs-bookworm", *own.selected))


def test_a_suite_without_a_list_is_named_with_the_command_that_writes_it() -> None:
    tree = {path: file for path, file in specimen().items() if not path.startswith(suites.versions_folder("bookworm"))}
    with pytest.raises(LockError, match=r"docker/debian/bookworm/versions\.txt: expected") as caught:
        make_plan(tree, [TORCH_ID])
    assert caught.value.remedy == "dlc update debian --write"


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "=======", "libc6", "libc6=", "libc6=new!", "\ufefflibc6=1"])
def test_a_line_that_records_no_version_is_named(line: str) -> None:
    path = suites.versions_path("bookworm")
    tree = {path: SourceFile(f"# Versions.\nlibc6=2.36-9\n{line}\n".encode())}
    with pytest.raises(LockError) as caught:
        suites.read_recorded(tree, "bookworm")
    assert caught.value.message == f"{path}:3: expected NAME=VERSION, found {line!r}"


def test_compilers_are_recorded_too() -> None:
    assert list_debian_packages(load_variants(unlocked())) == {"bookworm": ["ca-certificates", "g++", "gcc", "tini"]}


def test_versions_are_read_from_what_apt_would_install() -> None:
    text = "Inst libc6 (2.36-9+deb12u14 Debian:12.15/oldstable [amd64]) []\nConf libc6 (2.36-9 Debian:12 [amd64])\n"
    assert INSTALLED.findall(text) == [("libc6", "2.36-9+deb12u14")]


def test_every_package_that_an_image_names_is_recorded() -> None:
    tree = read_tree(ROOT)
    for suite, names in list_debian_packages(load_variants(tree)).items():
        assert set(names) <= set(suites.read_recorded(tree, suite)), suite


def test_the_system_of_the_tools_stays_when_recorded_versions_change(tmp_path: Path) -> None:
    for content in ("old", "new"):
        made = tmp_path / content
        made.mkdir()
        (made / "rootfs.tar").write_text(content)
        seal(made / "rootfs.tar")
        kept = rootfs.keep_rootfs(made, "bookworm", tmp_path)
        assert (kept / "rootfs.tar").read_text() == "old"
    assert rootfs.keep_rootfs(made, "trixie", tmp_path) != kept
