"""Clients that start jobs, as their users have them: each in an environment of its own, from the versions of a lock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from uv import find_uv_bin

from dlc.core.checkout import find_root

LOCKS = find_root() / "tests" / "integration" / "clients"
# The wheels of the locks are for this Python on x86-64 Linux.
PYTHON = (3, 11)
SECONDS = 900.0


def install_client(name: str, folder: Path) -> Path:
    """Return the Python of a new environment with the packages of a lock; skip the test if they cannot be had."""
    if sys.version_info[:2] != PYTHON or os.uname().machine != "x86_64":
        pytest.skip(f"{name}'s lock is for Python {'.'.join(map(str, PYTHON))} on x86-64")
    python = folder / name / "bin" / "python"
    uv = [find_uv_bin(), "--no-config", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder / name)], check=True, timeout=SECONDS)
    words = [*uv, "pip", "install", "--no-deps", "--require-hashes", "--python", str(python)]
    done = subprocess.run(
        [*words, "--requirements", str(LOCKS / f"{name}.txt")],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        # A hash that differs is no reason to skip.
        assert "hash mismatch" not in done.stderr.lower(), done.stderr
        pytest.skip(f"no index has the packages of {name}: {done.stderr.strip()[-300:]}")
    return python


def run_client(
    python: Path, script: Path, *words: str, env: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a script of a client, with nothing of this process's Python and no account of AWS but made-up keys."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "AWS_"))}
    own = {"PATH": f"{python.parent}:{kept['PATH']}", "PYTHONUNBUFFERED": "1"}
    return subprocess.run(
        [str(python), str(script), *words], env={**kept, **own, **env},
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
