"""Runs a program with a Python that has a framework, or skips the test where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(HERE), str(HERE.parents[2] / "src")])
VARIABLES = {"torch": "DLC_TEST_TORCH_PYTHON", "tensorflow": "DLC_TEST_TENSORFLOW_PYTHON"}
BOUND_SECONDS = 600.0  # only a hang takes that long


def answer_of(program: str, package: str) -> Any:
    """What its last line says, as JSON."""
    variable = VARIABLES[package]
    python = os.environ.get(variable, sys.executable)
    if subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python with {package}; {variable} names one")
    done = subprocess.run(
        [python, "-c", program], env={**os.environ, "PYTHONPATH": PATH}, capture_output=True, text=True,
        timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
