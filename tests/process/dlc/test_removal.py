"""dlc engine remove: removes what dlc made, asks first, and leaves what others made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dlc.core.errors import EngineError, UsageError
from dlc.engine import removal

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DLC_CACHE_DIR", "DLC_ENGINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for path in ("dlc/engine/data/image", "dlc/rootfs/x/rootfs.tar", "dlc/apt/lists/x", "dlc/later/file"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    return tmp_path


def dlc(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dlc", "engine", "remove", *argv]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


def test_everything_below_dlcs_own_folder_goes_and_is_said_first(home: Path) -> None:
    done = dlc("--yes")
    assert (done.returncode, done.stderr) == (0, "")
    for path in ("engine/data", "rootfs", "apt", "later"):
        assert f"  folder or file: {home}/dlc/{path}\n" in done.stdout
    assert not (home / "dlc").exists()
    assert dlc("--yes").stdout == "nothing to remove\n"


def test_without_a_terminal_and_without_yes_nothing_goes(home: Path) -> None:
    done = dlc()
    assert done.returncode == UsageError.exit_code
    assert "--yes" in done.stderr
    assert (home / "dlc/engine/data/image").exists()


def test_in_a_folder_that_a_variable_names_other_files_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(home / "dlc"))
    done = dlc("--yes", "--json")
    assert json.loads(done.stdout)["kept"] == [f"{home}/dlc/later: not made by dlc"]
    assert sorted(path.name for path in (home / "dlc").iterdir()) == ["later"]


def test_an_engine_folder_elsewhere_leaves_the_one_in_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_ENGINE_DIR", str(home / "other"))
    assert dlc("--yes").returncode == 0
    assert [path.name for path in (home / "dlc").iterdir()] == ["engine"]


def test_packages_stay_where_something_else_needs_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "SYSTEM_DATA", home / "nothing")
    monkeypatch.setattr("dlc.debian.apt.list_brought", lambda work: ["docker.io"])
    monkeypatch.setattr("dlc.debian.apt.can_install", lambda: "")
    monkeypatch.setattr("dlc.debian.apt.list_dependents", lambda names: ["ci-runner"])
    assert removal.plan_removal().packages == ()
    assert removal.plan_removal().kept == ("packages docker.io: needed by ci-runner",)
    monkeypatch.setattr("dlc.debian.apt.list_dependents", lambda names: [])
    assert removal.plan_removal().packages == ("docker.io",)
    (home / "nothing").mkdir()
    (home / "nothing/overlay2").touch()
    assert removal.plan_removal().packages == ()
    assert "another Docker engine keeps its data" in removal.plan_removal().kept[0]


@pytest.mark.parametrize(
    ("root", "below", "kind", "options", "ours"),
    [
        ("{data}", "", "ext4", "rw", True),
        ("/", "", "nsfs", "rw", True),
        ("/", "/buildkit/executor/x/rootfs", "overlay", "rw,upperdir={data}/overlay2/x/diff", True),
        ("/", f"/containers/{'0' * 64}/mounts/shm", "tmpfs", "rw", True),
        ("/", "/x", "overlay", "rw,upperdir=/elsewhere/x", False),
        ("/", "/x", "tmpfs", "rw", False),
        ("/", "", "ext4", "rw", False),
        ("/other", "", "ext4", "rw", False),
    ],
    ids=[
        "dockerd's own",
        "a network namespace",
        "layers of a step",
        "shared memory",
        "others' layers",
        "others' memory",
        "a disk",
        "another folder",
    ],
)
def test_only_mounts_that_dockerd_made_are_undone(
    home: Path, monkeypatch: pytest.MonkeyPatch, root: str, below: str, kind: str, options: str, ours: bool
) -> None:
    data, calls = str(home / "dlc/engine/data"), list[list[str]]()
    found = removal.Mount(root.format(data=data), data + below, kind, options.format(data=data))
    monkeypatch.setattr(removal, "_list_mounts", lambda paths: [found])
    monkeypatch.setattr(removal, "run_program", calls.append)
    if ours:
        removal._unmount((Path(data),))
    else:
        with pytest.raises(EngineError, match="a mount, which dlc did not make"):
            removal._unmount((Path(data),))
    assert bool(calls) is ours
