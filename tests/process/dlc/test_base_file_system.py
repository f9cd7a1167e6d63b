"""debian.rootfs: what makes the base file system ends with dlc and leaves nothing, and a full disk is said at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlc.core.errors import BaseImageError, DiskError
from dlc.debian import rootfs

HANG_SECONDS = 60.0
MAKING = """
import sys
from pathlib import Path
from dlc.debian import rootfs
rootfs.make_rootfs("bookworm", {}, Path(sys.argv[1]))
"""
# Mounts as mmdebstrap does, and works without end; with `quick` beside it, it makes a tar instead.
STAND_IN = """#!/bin/sh
here=$(dirname "$0")
for last in "$@"; do :; done
if [ -e "$here/quick" ]; then echo tar >"$last"; exit; fi
mkdir "$TMPDIR/chroot" && mount --bind /proc "$TMPDIR/chroot" && touch "$TMPDIR/file" "$here/begun"
sleep 600 & wait
"""


def can_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run([*rootfs.ALONE, "true"], check=False).returncode == 0


def running(folder: Path) -> list[str]:
    """Processes whose environment names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if os.fsencode(folder) in path.read_bytes() and path.parent.name != str(os.getpid()):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.skipif("not can_mount()")
def test_a_killed_dlc_leaves_neither_a_program_nor_a_mount_and_the_next_run_removes_its_folder(tmp_path: Path) -> None:
    programs, cache, scratch = tmp_path / "programs", tmp_path / "cache", tmp_path / "scratch"
    programs.mkdir()
    scratch.mkdir()
    (programs / "mmdebstrap").write_text(STAND_IN)
    (programs / "mmdebstrap").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(scratch)}
    argv = [sys.executable, "-c", MAKING, str(cache)]
    child = subprocess.Popen(argv, env=environment)
    deadline = time.monotonic() + HANG_SECONDS
    while not (programs / "begun").exists():
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.kill()
    child.wait()
    while running(programs):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert [path.name.startswith(rootfs.SCRATCH) for path in scratch.iterdir()] == [True]
    (programs / "quick").touch()
    subprocess.run(argv, env=environment, check=True, timeout=HANG_SECONDS)
    assert [*(cache / "drafts").iterdir(), *scratch.iterdir()] == []


def test_a_full_cache_disk_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**8))
    monkeypatch.setattr(rootfs, "_build_tar", lambda *_: pytest.fail("made"))
    with pytest.raises(DiskError, match=r"expected 600\.0 MB of free space .*, found 100\.0 MB"):
        rootfs.make_rootfs("bookworm", {}, tmp_path)


@pytest.mark.parametrize(("has_keys", "installed"), [(False, [["debian-archive-keyring"]]), (True, [])])
def test_debians_keys_are_installed_where_mmdebstrap_came_without_them(
    has_keys: bool, installed: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    keys = tmp_path / "debian-archive-keyring.gpg"
    if has_keys:
        keys.touch()
    monkeypatch.setattr(rootfs, "KEYS", keys)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("dlc.debian.apt.can_install", lambda: "")
    monkeypatch.setattr("dlc.debian.apt.install_packages", lambda names, _: asked.append(names))
    rootfs.require_program(tmp_path)
    assert asked == installed


@pytest.mark.parametrize(("system", "named"), [("ubuntu", True), ("debian", False)])
def test_debians_keys_are_named_to_mmdebstrap_outside_debian_so_that_no_image_names_them(
    system: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mmdebstrap").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\nexit 1\n')
    (tmp_path / "mmdebstrap").chmod(0o755)
    (tmp_path / "keys.gpg").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(rootfs, "KEYS", tmp_path / "keys.gpg")
    monkeypatch.setattr("dlc.debian.apt.read_os_release", lambda: {"ID": system})
    with pytest.raises(BaseImageError):
        rootfs.make_rootfs("bookworm", {}, tmp_path / "cache")
    assert (f"--keyring={tmp_path}/keys.gpg" in (tmp_path / "words").read_text()) == named


def test_a_mirror_whose_signature_nobody_can_check_is_told_with_the_keys_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mmdebstrap").write_text("#!/bin/sh\necho \"E: The repository 'bookworm' is not signed.\"\nexit 25\n")
    (tmp_path / "mmdebstrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(BaseImageError, match="not signed") as caught:
        rootfs.make_rootfs("bookworm", {}, tmp_path / "cache")
    assert caught.value.remedy == "install debian-archive-keyring"
