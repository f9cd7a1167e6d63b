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
