"""A Debian package that does not exist is found by `dlc lock` and `dlc build`, by apt's lists and without root."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlc.buildspec.locks.os_packages import require_os_packages
from dlc.buildspec.matrix import load_variants
from dlc.core.checkout import Tree
from dlc.core.errors import SpecError, UsageError
from dlc.debian import package_names
from dlc.debian.suites import versions_path
from harness.specimen import PYTORCH_PATH, TORCH_ID, changed, specimen

ROOT = Path(__file__).parents[3]
PACKAGES = ("numactl", "ffmpeg", "g++")
pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get reads Debian's lists")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of bookworm with three packages, as files."""
    folder = tmp_path / "mirror/dists/bookworm/main/binary-amd64"
    folder.mkdir(parents=True)
    entry = "Package: {}\nVersion: 1\nArchitecture: amd64\nFilename: x.deb\nSize: 1\nSHA256: {}\nDescription: x\n\n"
    listing = "".join(entry.format(name, "0" * 64) for name in PACKAGES).encode()
    (folder / "Packages").write_bytes(listing)
    place = f" {hashlib.sha256(listing).hexdigest()} {len(listing)} main/binary-amd64/Packages"
    release = f"Suite: stable\nCodename: bookworm\nArchitectures: amd64\nComponents: main\nSHA256:\n{place}\n"
    (tmp_path / "mirror/dists/bookworm/Release").write_text(release)
    monkeypatch.setattr(package_names, "find_mirror", lambda _: f"file://{tmp_path}/mirror")
    return tmp_path / "mirror"


def asking_for(*names: str) -> Tree:
    text = specimen()[PYTORCH_PATH].data.decode()
    assert "os_packages: [g++]" in text
    return changed(specimen(), PYTORCH_PATH, text.replace("[g++]", f"[{', '.join(names)}]"))


def check(tree: Tree, cache: Path, *sets: str) -> None:
    require_os_packages(load_variants(tree, [TORCH_ID], sets), tree, cache)


def test_a_misspelt_package_is_an_error_with_its_line_and_the_one_that_is_meant(mirror: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        check(asking_for("g++", "numactll"), tmp_path / "cache")
    assert caught.value.message.startswith(f"{PYTORCH_PATH}:")
    assert "expected a package of Debian bookworm, found 'numactll'; did you mean 'numactl'?" in caught.value.message


def test_one_on_the_command_line_is_the_command_lines_fault(mirror: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--set os_packages=.*found 'ffmpegg'; did you mean 'ffmpeg'"):
        check(specimen(), tmp_path / "cache", "os_packages=[ffmpegg]")


def test_packages_that_exist_are_asked_for_once(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = asking_for("g++", "numactl", "ffmpeg")
    check(tree, tmp_path / "cache")
    shutil.rmtree(mirror)
    monkeypatch.setenv("PATH", "")
    check(tree, tmp_path / "cache")


def test_without_lists_it_is_said_that_nothing_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(package_names, "find_mirror", lambda _: f"file://{tmp_path}/none")
    check(asking_for("numactll"), tmp_path / "cache")
    assert f"dlc: warning: {TORCH_ID}: os_packages numactll: not checked: " in capsys.readouterr().err


def test_a_base_image_of_the_users_own_is_said_to_be_unchecked(
    mirror: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(asking_for("numactll"), tmp_path / "cache", "base.image=ubuntu:24.04")
    assert "not checked: ubuntu:24.04 has lists of its own" in capsys.readouterr().err


def test_recorded_packages_need_no_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "tini" in specimen()[versions_path("bookworm")].data.decode()
    check(asking_for("tini"), tmp_path / "cache")
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("words", [["lock"], ["build"]], ids=" ".join)
def test_the_verbs_refuse_it_before_they_resolve_or_start_anything(
    words: list[str], mirror: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "dlc.yml").write_text(f"name: demo\nfrom: {TORCH_ID}\nos_packages: [numactll]\n")
    program = (
        f"import sys\nfrom dlc.debian import package_names\npackage_names.find_mirror = lambda _: 'file://{mirror}'\n"
    )
    program += "from dlc.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DLC_CACHE_DIR": str(tmp_path / "cache"),
                   "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=project, env=environment, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode == SpecError.exit_code, done.stderr
    assert "dlc.yml:3:15: os_packages: expected a package of Debian bookworm, found 'numactll'" in done.stderr
    assert not (project / "locks").exists()
