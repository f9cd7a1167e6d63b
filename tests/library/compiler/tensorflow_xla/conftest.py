"""One Python with TensorFlow for all tests of its compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow_runs import Runner
from torch_runs import TorchPython, make_python


@pytest.fixture(scope="session")
def tensorflow_python(tmp_path_factory: pytest.TempPathFactory) -> TorchPython:
    python = make_python(tmp_path_factory.mktemp("tensorflow"), "tensorflow")
    if python is None:
        pytest.skip("the Python that runs the scripts has no TensorFlow; DLC_TEST_TENSORFLOW_PYTHON names another")
    return python


@pytest.fixture
def tensorflow_runner(tensorflow_python: TorchPython, tmp_path: Path) -> Runner:
    return Runner(tensorflow_python, tmp_path)
