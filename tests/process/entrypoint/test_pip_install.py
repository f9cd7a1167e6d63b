"""pip through our program: its reason reaches stderr, its noise nobody, its failure is "cannot be had" (69)."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from real_launcher import launched, runnable_job

from harness.empty_wheel import write_wheel
from launch.base import process_spec

BOUND = 300  # seconds; only a hang takes that long


def install(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = ("--no-index", "--find-links", str(tmp_path / "wheels"), "--target", str(tmp_path / "target"))
    command = [sys.executable, process_spec.program_path("pip_install"), "install", "--no-input", *own, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False, cwd=tmp_path)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    for version in ("1", "2"):
        write_wheel(folder, "shared", version)
    write_wheel(folder, "one", "1", ["shared==1"])
    write_wheel(folder, "two", "1", ["shared==2"])
    return tmp_path


def test_a_conflict_is_explained_on_stderr_where_the_failure_file_takes_its_lines_from(wheels: Path) -> None:
    done = install(wheels, "one", "two")
    assert done.returncode == 69
    for words in ("The conflict is caused by:", "one 1 depends on shared==1", "two 1 depends on shared==2"):
        assert words in done.stderr
    assert "rank" not in done.stderr


def test_a_package_that_is_not_there_is_named(wheels: Path) -> None:
    done = install(wheels, "nowhere")
    assert done.returncode == 69
    assert "No matching distribution found for nowhere" in done.stderr


def test_what_is_installed_is_installed_and_the_log_says_which(wheels: Path) -> None:
    done = install(wheels, "one")
    assert done.returncode == 0, done.stderr
    assert (wheels / "target/one-1.dist-info").exists()
    assert "Successfully installed one-1 shared-1" in done.stdout


def test_a_framework_that_became_another_on_the_way_is_named_with_both_versions(tmp_path: Path) -> None:
    for version in ("1", "2"):
        write_wheel(tmp_path / "wheels", "torch", version)
    write_wheel(tmp_path / "wheels", "vision", "1", ["torch==2"])
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=BOUND)

    def said(*packages: str) -> str:
        offline = ("--no-index", "--find-links", str(tmp_path / "wheels"))
        command = [venv / "bin/python", process_spec.program_path("pip_install"), "install", *offline, *packages]
        return subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=True).stderr

    assert "dlc:" not in said("torch==1")
    assert "dlc: torch 1 is replaced by 2" in said("vision")
    assert "dlc:" not in said("vision")


def test_two_that_install_into_one_environment_take_turns(wheels: Path) -> None:
    holder = os.open(sys.prefix, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    own = ("--no-index", "--find-links", str(wheels / "wheels"), "--target", str(wheels / "target"), "one")
    with subprocess.Popen([sys.executable, process_spec.program_path("pip_install"), "install", *own]) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(3)
        os.close(holder)
        assert waiting.wait(BOUND) == 0


def test_what_is_there_already_is_not_worth_a_line() -> None:
    command = [sys.executable, process_spec.program_path("pip_install"), "install", "--no-index", "pip"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stderr
    assert "already satisfied" not in done.stdout


def with_a_pip(folder: Path, program: str) -> dict[str, Any]:
    """The arguments of subprocess that run ours with this program as pip."""
    (folder / "pip.py").write_text(program)
    return {
        "args": (sys.executable, process_spec.program_path("pip_install")),
        "env": {**os.environ, "PYTHONPATH": str(folder)},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


@pytest.mark.parametrize("code", [0, 1])
def test_a_last_line_without_a_newline_is_a_line_too(tmp_path: Path, code: int) -> None:
    pip = f"import sys\nprint('first')\nprint('last words', end='')\nsys.exit({code})"
    done = subprocess.run(**with_a_pip(tmp_path, pip), timeout=BOUND, check=False)
    assert done.stdout == "first\nlast words\n"
    assert done.stderr == ("first\nlast words\n" if code else "")


CANCELLED = """
import sys, time
try:
    print('ready', flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print('cleaned up', flush=True)
    sys.exit(1)
"""


def test_a_sigint_while_pip_installs_ends_it_as_a_signal_when_pip_has_cleaned_up(tmp_path: Path) -> None:
    with subprocess.Popen(**with_a_pip(tmp_path, CANCELLED)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=BOUND)
    assert (running.returncode, said) == (-signal.SIGINT, "cleaned up\n")


def test_a_job_that_is_interrupted_while_pip_installs_ends_with_130(tmp_path: Path) -> None:
    job = runnable_job(tmp_path).code(["train.py", "requirements.txt"]).code(["pip.py"], CANCELLED)
    with launched(job) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=BOUND)
    assert running.returncode == 128 + signal.SIGINT


def test_a_module_of_the_code_directory_does_not_stand_in_for_pips_own(wheels: Path) -> None:
    (wheels / "logging.py").write_text("raise SystemExit('shadowed')")
    assert install(wheels, "one").returncode == 0


# A build tool of its own, which asks for another package and leaves files where it builds, as setuptools does.
BACKEND = """\
import os, zipfile
import shared_tool

def build_wheel(folder, settings=None, metadata=None):
    os.makedirs("build/lib")
    os.makedirs("mine.egg-info")
    with zipfile.ZipFile(f"{folder}/mine-1-py3-none-any.whl", "w") as wheel:
        wheel.write("mine.py")
        told = "Metadata-Version: 2.1", "Name: mine", "Version: 1", "Requires-Dist: one", ""
        wheel.writestr("mine-1.dist-info/METADATA", chr(10).join(told))
        told = "Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any", ""
        wheel.writestr("mine-1.dist-info/WHEEL", chr(10).join(told))
        wheel.writestr("mine-1.dist-info/RECORD", "")
    return "mine-1-py3-none-any.whl"
"""
PROJECT = '[build-system]\nrequires = ["shared>=1"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.fixture
def package(wheels: Path) -> Path:
    """A folder of code that is a package."""
    folder = wheels / "code"
    folder.mkdir()
    for name, text in {"pyproject.toml": PROJECT, "backend.py": BACKEND, "mine.py": "words = 'first'\n"}.items():
        (folder / name).write_text(text)
    return folder


def make_environment(folder: Path, wheels: Path, *packages: str) -> Path:
    """A virtual environment with pip, and packages as an image has them."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=BOUND)
    python = folder / "bin/python"
    own = ("--no-index", "--find-links", str(wheels), "--disable-pip-version-check", "-q")
    if packages:
        subprocess.run([python, "-m", "pip", "install", *own, *packages], check=True, timeout=BOUND)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "shared_tool.py").write_text("")
    return python


def install_here(python: Path, folder: Path, index: Path) -> subprocess.CompletedProcess[str]:
    offline = ("--no-index", "--find-links", str(index))
    command = [str(python), process_spec.program_path("pip_install"), "install", "--no-input", *offline, "."]
    return subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False, cwd=folder)


def test_a_package_is_built_by_what_the_image_has_and_its_folder_stays_as_it_is(package: Path, tmp_path: Path) -> None:
    """The index has what the package needs to run, not what its build asks for."""
    python = make_environment(tmp_path / "venv", tmp_path / "wheels", "shared==1")
    (tmp_path / "wheels/shared-2-py3-none-any.whl").unlink()
    (tmp_path / "wheels/shared-1-py3-none-any.whl").unlink()
    for words in ("first", "second"):
        (package / "mine.py").write_text(f"words = {words!r}\n")
        done = install_here(python, package, tmp_path / "wheels")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Successfully built and installed mine-1" in done.stdout
        told = subprocess.run([python, "-c", "import mine; print(mine.words)"], capture_output=True, text=True, cwd="/")
        assert told.stdout == f"{words}\n"
    assert list(tmp_path.glob("venv/lib/*/site-packages/one-1.dist-info"))
    assert sorted(path.name for path in package.iterdir()) == ["backend.py", "mine.py", "pyproject.toml"]


def test_a_package_whose_build_asks_for_what_the_image_lacks_is_built_as_pip_does(
    package: Path, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "venv", tmp_path / "wheels")
    (package / "pyproject.toml").write_text(PROJECT.replace("shared>=1", "nowhere>=2"))
    done = install_here(python, package, tmp_path / "wheels")
    assert done.returncode == 69
    assert "No matching distribution found for nowhere>=2" in done.stdout + done.stderr
    assert sorted(path.name for path in package.iterdir()) == ["backend.py", "mine.py", "pyproject.toml"]


def test_a_build_that_fails_without_isolation_is_told_and_tried_with_it(package: Path, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "venv", tmp_path / "wheels", "shared==1")
    # In the build itself: pip 24 and 25 do not say why a tool cannot be imported.
    (package / "backend.py").write_text("def build_wheel(*_): import nothing_of_that_name")
    done = install_here(python, package, tmp_path / "wheels")
    assert done.returncode == 69
    assert "dlc: the package cannot be built by what the image has:" in done.stdout
    assert "nothing_of_that_name" in done.stdout
