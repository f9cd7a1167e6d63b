"""Processes of a data service, ended with each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_runs import Service, python_with


@pytest.fixture(scope="session")
def grpc_python() -> str:
    python = python_with("grpc", "grpc_health")
    if python is None:
        pytest.skip("the Python that runs the scripts has no grpcio; DLC_TEST_TORCH_PYTHON names another")
    return python


@pytest.fixture(scope="session")
def torch_python() -> str:
    python = python_with("grpc", "grpc_health", "torch", "numpy")
    if python is None:
        pytest.skip("the Python that runs the scripts has no torch or grpcio; DLC_TEST_TORCH_PYTHON names another")
    return python


@pytest.fixture
def service(grpc_python: str, tmp_path: Path) -> Iterator[Service]:
    found = Service(grpc_python, tmp_path)
    yield found
    found.close()
