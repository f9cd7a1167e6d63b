"""dlc update packages --security with uv and git: only what a scan complains about, a commit for each image set."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_packages_resolved import wheel

from dlc.__main__ import main
from dlc.buildspec.lockfile import explain_staleness, locked_versions
from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.update_security import read_scans
from dlc.core.checkout import read_tree
from dlc.core.errors import UsageError
from harness.specimen import TENSORFLOW_ID, TORCH_ID, unlocked, write_tree

REFS = {TORCH_ID: "dlc/pytorch:2.13-training-cpu-py311", TENSORFLOW_ID: "dlc/tensorflow:2.21-training-cpu-py311"}

NO_EXCEPTIONS: dict[str, Any] = {"excepted": [], "expired": [], "unused_exceptions": []}


def git(root: Path, *words: str) -> str:
    argv = ["git", "-C", str(root), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that packages come from: what both images need, and two packages that they bring along."""
    folder = tmp_path / "wheels"
    (folder / "index").mkdir(parents=True)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_DEFAULT_INDEX", (folder / "index").as_uri())
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    wheel(folder, "torch", "2.13.0+cpu", "dlc-leaf")
    wheel(folder, "tensorflow-cpu", "2.21.0", "dlc-other")
    wheel(folder, "transformers", "5.23.0", "dlc-third")
    for name in ("dlc-leaf", "dlc-other", "dlc-third"):
        wheel(folder, name, "1.0")
    wheel(folder, "numpy", "2.4.6")
    return folder


@pytest.fixture
def checkout(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The specimen with locks of its own, committed; then newer versions of all that the images bring along appear."""
    root = tmp_path / "checkout"
    write_tree(unlocked(), root)
    monkeypatch.chdir(root)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.org")
    assert main(["lock", "*"]) == 0
    git(tmp_path, "init", "--quiet", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    for name in ("dlc-leaf", "dlc-other", "dlc-third"):
        for version in ("1.1", "1.2"):
            wheel(wheels, name, version)
    return root


def scan(folder: Path, image: str, *found: tuple[str, str, str, str]) -> str:
    """A file of `dlc scan --json`: package, version, advisory, fix of each finding."""
    rows = [{"package": p, "version": v, "advisory": a, "aliases": ["CVE-1"], "fix": f} for p, v, a, f in found]
    path = folder / f"scan-{image}.json"
    path.write_text(json.dumps({"ref": REFS[image], "answers": [], "open": rows, **NO_EXCEPTIONS}))
    return str(path)


def update(*words: str) -> int:
    return main(["update", "packages", "--security", *words])


def versions(root: Path, image: str) -> dict[str, str]:
    tree = read_tree(root)
    [variant] = load_variants(tree, [image])
    assert explain_staleness(tree, variant) == ""
    return dict(locked_versions(tree, variant))


def test_a_package_that_came_along_changes_in_the_lock_alone_and_all_others_stay(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {image: versions(checkout, image) for image in REFS}
    assert before[TORCH_ID]["dlc-leaf"] == "1.0"
    file = scan(tmp_path, TORCH_ID, ("dlc-leaf", "1.0", "PYSEC-1", "1.1"))
    assert update("--scan", file) == 0
    assert "dlc-leaf 1.0 -> 1.2  PYSEC-1 CVE-1" in capsys.readouterr().out
    assert git(checkout, "status", "--porcelain") == ""
    assert update("--scan", file, "--commit") == 0
    assert versions(checkout, TORCH_ID) == {**before[TORCH_ID], "dlc-leaf": "1.2"}
    assert versions(checkout, TENSORFLOW_ID) == before[TENSORFLOW_ID]
    assert git(checkout, "status", "--porcelain") == ""
    message = git(checkout, "log", "-1", "--format=%B")
    assert message.splitlines()[0] == "Security updates of 1 images: dlc-leaf"
    assert "dlc-leaf 1.0 -> 1.2  PYSEC-1 CVE-1" in message
    assert message.endswith(f"Images:\n{TORCH_ID}")
    changed = git(checkout, "show", "--format=", "--name-only").splitlines()
    assert all(f"/{TORCH_ID}/" in path for path in changed)


def test_sets_of_images_with_other_faults_are_commits_of_their_own(checkout: Path, tmp_path: Path) -> None:
    files = [
        scan(tmp_path, TORCH_ID, ("dlc-leaf", "1.0", "PYSEC-1", "1.1")),
        scan(tmp_path, TENSORFLOW_ID, ("dlc-other", "1.0", "PYSEC-2", "1.2")),
    ]
    assert update("--scan", files[0], "--scan", files[1], "--commit") == 0
    subjects = git(checkout, "log", "--format=%s", "HEAD~2..").splitlines()
    assert sorted(subjects) == [
        "Security updates of 1 images: dlc-leaf",
        "Security updates of 1 images: dlc-other",
    ]
    assert versions(checkout, TENSORFLOW_ID)["dlc-other"] == "1.2"


def test_images_with_the_same_faults_are_one_set(checkout: Path, tmp_path: Path) -> None:
    files = [scan(tmp_path, image, ("dlc-third", "1.0", "PYSEC-3", "1.1")) for image in REFS]
    assert update("--scan", files[0], "--scan", files[1], "--commit") == 0
    assert git(checkout, "log", "--format=%s", "HEAD~1..") == "Security updates of 2 images: dlc-third"


def test_a_pin_changes_for_all_images_that_have_it_in_one_commit(checkout: Path, wheels: Path, tmp_path: Path) -> None:
    wheel(wheels, "numpy", "2.4.7")
    assert update("--scan", scan(tmp_path, TORCH_ID, ("numpy", "2.4.6", "PYSEC-4", "2.4.7")), "--commit") == 0
    assert "numpy: 2.4.7" in (checkout / "buildspec/pins.yml").read_text()
    assert versions(checkout, TORCH_ID)["numpy"] == versions(checkout, TENSORFLOW_ID)["numpy"] == "2.4.7"
    assert versions(checkout, TORCH_ID)["dlc-leaf"] == "1.0"
    assert git(checkout, "log", "--format=%s", "HEAD~1..") == "Security updates of 2 images: numpy"
    assert git(checkout, "status", "--porcelain") == ""


def test_what_cannot_be_fixed_is_left_and_said(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        ("dlc-leaf", "1.0", "PYSEC-1", ""),
        ("dlc-third", "1.0", "PYSEC-3", "9.0"),
        ("numpy", "2.4.6", "PYSEC-4", "2.4.7"),
    ]
    assert update("--scan", scan(tmp_path, TORCH_ID, *found), "--json") == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert said["sets"] == []
    left = "\n".join(said["left"])
    assert f"{TORCH_ID}: dlc-leaf 1.0: PYSEC-1 is fixed in no later version" in left
    assert "dlc-third>=9.0" in left
    assert f"{TORCH_ID}: numpy stays at 2.4.6: 2.4.7 or later is needed" in left
    assert git(checkout, "status", "--porcelain") == ""


def test_a_debian_update_is_none_of_its_work(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert update("--scan", scan(tmp_path, TORCH_ID, ("libssl3", "3.0.1", "libssl3-update", "3.0.2"))) == 0
    assert capsys.readouterr().out.startswith("nothing to update")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("update", "packages", "numpy", "--security"), "expected no PACKAGE, found numpy"),
        (("update", "debian", "--security"), "--security is for packages"),
        (("update", "packages", "--commit"), "only for --security"),
        (
            ("update", "packages", "--security", "--scan", "buildspec/pins.yml"),
            "expected what `dlc scan --json` prints",
        ),
    ],
)
def test_a_wrong_command_line_is_one_error(
    words: tuple[str, ...], said: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main([*words]) == UsageError.exit_code
    assert said in capsys.readouterr().err


ROW = {"package": "six", "version": "1", "advisory": "A", "aliases": [], "fix": ""}
SCAN = {"ref": "r", "answers": [], "open": [], **NO_EXCEPTIONS}


@pytest.mark.parametrize(
    "content",
    [[], {}, {**SCAN, "ref": []}, {**SCAN, "open": [1]}, {**SCAN, "open": [{**ROW, "package": 1}]},
     {**SCAN, "open": [{**ROW, "aliases": [1]}]}, {**SCAN, "expired": [ROW]}, {**SCAN, "open": [ROW]}],
)  # fmt: skip
def test_a_file_that_is_no_scan_is_one_error(content: object, tmp_path: Path) -> None:
    path = tmp_path / "scan.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"expected (what `dlc scan --json` prints|a scan of an image)"):
        read_scans([str(path)], [])


def test_changed_files_are_not_swept_into_a_commit(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "buildspec/pins.yml").write_text((checkout / "buildspec/pins.yml").read_text() + "# mine\n")
    file = scan(tmp_path, TORCH_ID, ("dlc-leaf", "1.0", "PYSEC-1", "1.1"))
    assert update("--scan", file, "--commit") == UsageError.exit_code
    assert "expected buildspec and docker as git has them, found: M buildspec/pins.yml" in capsys.readouterr().err
    assert versions(checkout, TORCH_ID)["dlc-leaf"] == "1.0"
