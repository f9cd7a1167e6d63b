"""Pythons with torch and with TensorFlow for the scripts, or a reason why there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from profile_runs import Runner


def python_with(package: str, variable: str) -> str:
    python = os.environ.get(variable, sys.executable)
    if subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode:
        pytest.skip(f"the Python that runs the scripts has no {package}; {variable} names another")
    return python


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(python_with("torch", "DLC_TEST_TORCH_PYTHON"), tmp_path / "profile")


@pytest.fixture(scope="module")
def module_runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A Runner whose jobs several tests look at."""
    return Runner(python_with("torch", "DLC_TEST_TORCH_PYTHON"), tmp_path_factory.mktemp("jobs") / "profile")


@pytest.fixture
def tensorflow_runner(tmp_path: Path) -> Runner:
    return Runner(python_with("tensorflow", "DLC_TEST_TENSORFLOW_PYTHON"), tmp_path / "profile")
