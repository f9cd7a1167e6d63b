"""One Python with torch for all tests of the compiler, and one cache: compiling is what takes their time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch_runs import Runner, TorchPython, make_python


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> TorchPython:
    python = make_python(tmp_path_factory.mktemp("torch"))
    if python is None:
        pytest.skip("the Python that runs the scripts has no torch; DLC_TEST_TORCH_PYTHON names another")
    return python


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("DLC_TEST_COMPILE_CACHE")
    return Path(kept) if kept else tmp_path_factory.mktemp("compiled")


@pytest.fixture
def runner(torch_python: TorchPython, compile_cache: Path, tmp_path: Path) -> Runner:
    return Runner(torch_python, tmp_path, compile_cache)
