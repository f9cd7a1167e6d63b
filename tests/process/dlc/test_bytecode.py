"""docker/scripts/finish/compile-bytecode.py: what Python imports in an image is compiled there, the same every time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlc.core.checkout import find_root

ROOT = find_root(Path(__file__).parent)
SCRIPT = ROOT / "docker/scripts/finish/compile-bytecode.py"
# in src -> in /opt/dlc of an image
OURS = {"entrypoint": "entrypoint", "dlc_runtime": "runtime/dlc_runtime", "dlc_channel": "runtime/dlc_channel"}
# The launcher's programs are never imported
COMPILED = ("entrypoint/launch", "entrypoint/python_startup", "runtime/dlc_runtime", "runtime/dlc_channel")
BLOCK = 4096  # an engine counts a file, and a folder, by the blocks of its disk
ABOVE = 12  # the folders above them in both layers, and the line that lets Python import the library
MODULE = '''"""What it is for."""
def broken():
    """Why."""
    return missing_name + 1
'''
SHOW = (
    "import module; positions = [*module.broken.__code__.co_positions()]\n"
    "print(module.broken.__doc__, any(column for *_, column in positions)); module.broken()"
)


def compiled(folder: Path, *options: str) -> dict[str, bytes]:
    """What each module of a folder is compiled to."""
    subprocess.run([sys.executable, "-I", "-S", SCRIPT, folder, *options], check=True, stdout=subprocess.PIPE)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.pyc")}


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """The launcher and the library, as an image gets them."""
    for name, place in OURS.items():
        shutil.copytree(ROOT / "src" / name, tmp_path / "opt/dlc" / place, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "opt/dlc"


@pytest.mark.parametrize(("options", "left"), [((), "Why. True"), (("--small",), "None False")])
def test_python_imports_what_was_compiled_and_a_traceback_names_the_line(
    tmp_path: Path, options: tuple[str, ...], left: str
) -> None:
    """Small bytecode has no docstring, and no column of a call."""
    (tmp_path / "module.py").write_text(MODULE)
    assert compiled(tmp_path, *options).keys() == {f"__pycache__/module.{sys.implementation.cache_tag}.pyc"}
    argv = [sys.executable, "-v", "-B", "-c", SHOW]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"code object from '{tmp_path}/__pycache__/module." in done.stderr
    assert f'File "{tmp_path}/module.py", line 4, in broken' in done.stderr
    assert done.stdout.strip() == left


def test_a_file_that_holds_only_a_docstring_is_no_file_more(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text('"""What this room is for."""\n')
    assert compiled(tmp_path, "--small") == {}
    assert len(compiled(tmp_path)) == 1


def test_it_is_the_same_every_time(ours: Path) -> None:
    first = compiled(ours, "--small")
    for path in ours.rglob("*.pyc"):
        path.unlink()
    assert compiled(ours, "--small") == first
    assert len(first) > 100


def test_the_launcher_and_the_library_are_small(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change to either rebuilds and transfers this much and no more; tests/container asks the engine the same."""
    monkeypatch.chdir(ours.parents[1])
    for folder in COMPILED:
        compiled(Path("opt/dlc", folder), "--small")  # bytecode holds its path: this one is as long as in an image
    blocks = [-(-path.stat().st_size // BLOCK) or 1 for path in ours.rglob("*") if path.is_file()]
    folders = sum(1 for path in ours.rglob("*") if path.is_dir())
    assert (sum(blocks) + folders + ABOVE) * BLOCK < 4_800_000
