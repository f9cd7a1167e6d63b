"""An installed dlc knows its own wheel, as pip and uv record it, and a project pins it by its hash."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

import dlc
from dlc.buildspec.project import INSTALL_TOOL
from dlc.buildspec.tool_pin import NEEDS, TOOL_LOCK, ToolPin, read_tool_pin
from dlc.core.checkout import find_root, find_workspace, read_tree, read_workspace
from dlc.plan.plan import make_plan
from dlc.plan.targets import read_uv_version
from harness.installed import build_package, install_wheel, run_installed

ROOT = find_root(Path(__file__))
SECONDS = 300
NAME = f"dlc-{dlc.__version__}-py3-none-any.whl"
ADDRESS = f"https://files.example/{NAME}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(tmp_path_factory.mktemp("built"))[1]


@pytest.fixture
def venv(wheel: Path, tmp_path: Path) -> Path:
    """An environment in which uv has installed the wheel: it records the address, and no hash."""
    install_wheel(wheel, tmp_path / "venv")
    return tmp_path / "venv"


def init(venv: Path, folder: Path, *words: str) -> str:
    done = run_installed(venv / "bin/dlc", folder, "init", "demo", *words, DLC_CACHE_DIR=f"{folder}/cache")
    assert done.returncode == 0, done.stderr
    return done.stdout


def pin_of(folder: Path) -> ToolPin | None:
    return read_tool_pin(read_workspace(find_workspace(folder / "demo")))


def record(venv: Path, said: object) -> None:
    """Say that dlc was installed from somewhere else."""
    [file] = venv.glob("lib/python*/site-packages/dlc-*/direct_url.json")
    file.write_text(json.dumps(said))


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.long)])
def test_a_new_project_keeps_the_wheel_that_its_dlc_was_installed_from(
    installer: str, venv: Path, wheel: Path, tmp_path: Path
) -> None:
    if installer == "pip":
        pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "--quiet", "--no-index"]
        subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True, timeout=SECONDS)
    init(venv, tmp_path)
    assert pin_of(tmp_path) == ToolPin(f"tools/{NAME}", digest_of(wheel))
    assert digest_of(tmp_path / "demo/tools" / NAME) == digest_of(wheel)
    assert (tmp_path / "demo" / TOOL_LOCK).read_text().endswith((ROOT / NEEDS).read_text())


def test_a_wheel_that_is_gone_or_another_one_by_now_is_not_pinned(venv: Path, wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / NAME
    record(venv, {"url": other.as_uri(), "archive_info": {}})
    assert "tool is left out: this dlc was installed from" in (said := init(venv, tmp_path))
    assert "which is no wheel any more\n  remedy: dlc init --tool FILE" in said
    assert pin_of(tmp_path) is None
    other.write_bytes(wheel.read_bytes())
    record(venv, {"url": other.as_uri(), "archive_info": {"hashes": {"sha256": "0" * 64}}})
    (tmp_path / "demo/dlc.yml").unlink()
    assert "which is another file now" in init(venv, tmp_path)


def test_a_wheel_of_the_same_name_with_other_code_is_not_pinned(venv: Path, wheel: Path, tmp_path: Path) -> None:
    [recorded] = venv.glob("lib/python*/site-packages/dlc-*/RECORD")
    recorded.write_text(recorded.read_text().replace("dlc/__main__.py,sha256=", "dlc/__main__.py,sha256=0"))
    assert "which is another file now" in init(venv, tmp_path)
    assert pin_of(tmp_path) is None


def test_an_origin_that_no_project_may_pin_is_said_without_its_password(venv: Path, tmp_path: Path) -> None:
    no_project = "which no project may name"
    cases: list[tuple[dict[str, object], str]] = [
        ({"url": ADDRESS, "archive_info": {}}, "its installer recorded no hash"),
        ({"url": f"http://files.example/{NAME}", "archive_info": {}}, no_project),
        ({"url": ADDRESS.replace("//", "//me:hunter2@"), "archive_info": {}}, no_project),
        ({"url": f"{ADDRESS}?token=hunter2", "archive_info": {}}, no_project),
        ({"url": "file:///srv/dlc", "dir_info": {"editable": True}}, "this dlc is a checkout"),
    ]
    for said, why in cases:
        record(venv, said)
        told = init(venv, tmp_path)
        assert why in told
        assert "remedy: dlc init --tool FILE" in told
        assert "hunter2" not in told
        assert pin_of(tmp_path) is None
        (tmp_path / "demo/dlc.yml").unlink()


def test_an_address_with_its_hash_is_pinned_without_a_copy(venv: Path, wheel: Path, tmp_path: Path) -> None:
    record(venv, {"url": ADDRESS, "archive_info": {"hashes": {"sha256": digest_of(wheel)}}})
    init(venv, tmp_path)
    assert pin_of(tmp_path) == ToolPin(ADDRESS, digest_of(wheel))
    assert not (tmp_path / "demo/tools").exists()
    assert (tmp_path / "demo" / TOOL_LOCK).read_text().endswith((ROOT / NEEDS).read_text())
    record(venv, {"url": ADDRESS, "archive_info": {"hashes": {"sha256": "b" * 64}}})
    exported = run_installed(venv / "bin/dlc", tmp_path / "demo", "export", "*-demo", "out")
    assert exported.returncode == 0
    assert f"dlc: warning: dlc.yml pins dlc {dlc.__version__} with sha256 {digest_of(wheel)[:12]}..." in exported.stderr
    assert f"remedy: {INSTALL_TOOL}" in exported.stderr


def test_another_uv_in_the_environment_changes_no_key_and_is_named(venv: Path, tmp_path: Path) -> None:
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "uv-0.13.9.dist-info").mkdir()
    (packages / "uv-0.13.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: uv\nVersion: 0.13.9\n")
    nowhere = {"DLC_ENGINE": "off", "DOCKER_HOST": f"unix://{tmp_path}/none.sock", "DLC_CACHE_DIR": f"{tmp_path}/cache"}
    plan = run_installed(venv / "bin/dlc", tmp_path, "plan", "--json", **nowhere)
    tree = read_tree(ROOT)
    assert {each["id"]: each["key"] for each in json.loads(plan.stdout)["targets"]} == {
        each.id: each.key for each in make_plan(tree).targets
    }
    doctor = run_installed(venv / "bin/dlc", tmp_path, "doctor", **nowhere)
    wanted = read_uv_version(tree)
    assert (
        f"uv 0.13.9 is installed; images are made with uv {wanted}, which a build fetches by its hash" in doctor.stdout
    )
    assert f"remedy: pip install uv=={wanted}" in doctor.stdout


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_the_tools_lock_installs_by_its_hash_in_the_projects_folder(installer: str, venv: Path, tmp_path: Path) -> None:
    """The wheel's own line, from the folder of dlc.yml; what it needs comes from an index, which no test here asks."""
    init(venv, tmp_path)
    lock = tmp_path / "demo" / TOOL_LOCK
    text = lock.read_text()
    lock.write_text("".join(text.partition("\nannotated-types==")[0]) + "\n")
    uv = [find_uv_bin(), "--offline", "--no-config", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, tmp_path / "other"], check=True, timeout=SECONDS)
    python = ["--python", str(tmp_path / "other/bin/python")]
    words = ["--no-deps", "--no-index", "--require-hashes", "--force-reinstall", "-r", TOOL_LOCK]
    argv = {
        "uv": [*uv, "pip", "install", *python, *words],
        "pip": [sys.executable, "-m", "pip", *python, "install", *words],
    }

    def install() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv[installer], cwd=tmp_path / "demo", capture_output=True, text=True, timeout=SECONDS, check=False
        )

    assert install().returncode == 0
    lock.write_text(re.sub("sha256:..", "sha256:00", lock.read_text()))
    assert "hash" in (done := install()).stderr.lower()
    assert done.returncode != 0
