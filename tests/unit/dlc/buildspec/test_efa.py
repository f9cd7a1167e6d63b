"""EFA software: what each source of it needs, which versions go together, and that it comes by its hash alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dlc.buildspec import cuda_efa
from dlc.buildspec.matrix import load_variants
from dlc.buildspec.models import Efa
from dlc.core.checkout import Tree, find_root, read_tree
from dlc.core.errors import LockError, SpecError, UsageError
from dlc.image_build import download
from dlc.plan.contexts import Pinned
from dlc.plan.plan import make_plan
from harness.specimen import COMPAT, TORCH_ID, changed, locked, specimen, unlocked

ROOT = find_root(Path(__file__).parent)
CONTENT = bytes(range(256)) * 8192  # 2 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = "0" * 64
INSTALLER = ["efa.source=installer", "efa.version=1.50.0", "efa.url=https://vendor.invalid/efa.tar.gz"]


def settings(*sets: str) -> Efa:
    [variant] = load_variants(specimen(), [TORCH_ID], sets)
    return variant.settings.efa


def got(url: str, cache: Path, sha256: str = SHA256) -> bytes:
    return (download.fetch(Pinned(sha256, url), cache, None) / download.FILE).read_bytes()


@pytest.mark.parametrize(
    ("source", "names"),
    [("none", ()), ("distro", ()), ("installer", ("version", "url", "sha256"))],
)
def test_a_source_of_efa_software_says_which_settings_it_lacks(source: str, names: tuple[str, ...]) -> None:
    if not names:
        assert settings(f"efa.source={source}").source == source
        return
    with pytest.raises(UsageError) as caught:
        settings(f"efa.source={source}")
    lines = caught.value.message.splitlines()
    assert [line.split(": ")[1] for line in lines] == sorted(f"efa.{name}" for name in names)
    assert all(f"(efa.source is {source}), found nothing" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("source=source", "none, distro or installer"),
        ("sha256=12ab", "64 hexadecimal digits, or nothing"),
        ("url=ftp://x", "an address (http, https, file), or nothing"),
        ("version=latest", "a version such as 1.17.3, or nothing"),
    ],
)
def test_a_setting_that_cannot_be_right_is_refused(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=rf"expected {expected.replace('(', '[(]').replace(')', '[)]')}, found"):
        settings(f"efa.{text}")


def test_only_the_source_that_needs_them_gets_debian_packages() -> None:
    assert cuda_efa.efa_packages(settings()) == ()
    assert cuda_efa.efa_packages(settings("efa.source=distro")) == ("libfabric1",)
    assert cuda_efa.efa_packages(settings(*INSTALLER, f"efa.sha256={SHA256}")) == ()


def test_an_image_is_another_one_with_another_hash_but_not_with_another_address() -> None:
    def key(*sets: str) -> str:
        return make_plan(specimen(), [TORCH_ID], sets).target(TORCH_ID).key

    first = key(*INSTALLER, f"efa.sha256={SHA256}")
    assert key(*INSTALLER, f"efa.sha256={SHA256}", "efa.url=file:///mirror/efa.tar.gz") == first
    assert key(*INSTALLER, f"efa.sha256={OTHER}") != first


def with_rule(rule: str) -> Tree:
    return locked(changed(unlocked(), "buildspec/compat.yml", COMPAT + f"  - {rule}\n    why: it says so\n"))


WHOLE_INSTALLER = [*INSTALLER, f"efa.sha256={SHA256}"]


@pytest.mark.parametrize("then", ["debian: {libc6: '>=2.37'}", "locked: {torch: '>=2.14'}", "efa: {version: '>=1.60'}"])
def test_a_rule_may_ask_for_recorded_versions(then: str) -> None:
    tree = with_rule("when: {efa: {source: installer}}\n    then: {" + then + "}")
    assert make_plan(tree, [TORCH_ID]).selected == (TORCH_ID,)
    with pytest.raises((SpecError, UsageError), match="because it says so"):
        make_plan(tree, [TORCH_ID], WHOLE_INSTALLER)


def test_versions_of_a_stale_lock_and_of_a_base_that_the_user_names_break_no_rule() -> None:
    stale = with_rule("when: {efa: {source: installer}}\n    then: {locked: {numpy: '>=3'}}")
    assert load_variants(stale, [TORCH_ID], [*WHOLE_INSTALLER, "packages.training=[numpy==2.0.0]"])
    other = with_rule("when: {efa: {source: installer}}\n    then: {debian: {libc6: '>=9'}}")
    assert load_variants(other, [TORCH_ID], [*WHOLE_INSTALLER, "base.image=ubuntu:24.04"])


@pytest.mark.parametrize(
    ("glob", "version", "allowed"),
    [
        ("pytorch-2.9-*", "1.38.0", True),
        ("pytorch-2.9-*", "1.30.0", False),  # without the plug-in
        ("pytorch-1.10-*", "1.50.0", True),
        ("pytorch-1.10-*", "1.51.0", False),  # without Debian 11
        ("pytorch-2.13-training-cpu-*", "1.50.0", False),  # nothing to plug it into
    ],
)
def test_the_installer_is_taken_only_where_it_has_what_the_image_needs(glob: str, version: str, allowed: bool) -> None:
    sets = [*INSTALLER, f"efa.version={version}", f"efa.sha256={SHA256}"]
    if allowed:
        assert load_variants(read_tree(ROOT), [glob], sets)
    else:
        with pytest.raises((SpecError, UsageError), match=r"compat\.yml:"):
            load_variants(read_tree(ROOT), [glob], sets)


def test_every_cuda_image_has_libfabric_and_no_cpu_image_asks_for_it() -> None:
    for variant in load_variants(read_tree(ROOT)):
        assert (variant.settings.efa.source == "none") == (variant.settings.device == "cpu"), variant.id


def test_an_address_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(LockError, match=r"http://127\.0\.0\.1:1/x: .*refused"):
        got("http://127.0.0.1:1/x", tmp_path)


def test_a_file_of_this_host_is_taken_by_its_address(tmp_path: Path) -> None:
    (tmp_path / "installer.tar.gz").write_bytes(CONTENT)
    assert got((tmp_path / "installer.tar.gz").as_uri(), tmp_path) == CONTENT
