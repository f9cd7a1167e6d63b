"""gRPC, or one clear error where the image has none."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from dlc_runtime.dataservice.errors import MissingPackageError

if TYPE_CHECKING:
    from typing import Any

PACKAGES = {"grpc": "grpcio", "grpc_health": "grpcio-health-checking"}


def require() -> None:
    """Raises MissingPackageError. Imports nothing: whoever forks later must not have gRPC's threads."""
    absent = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if absent:
        raise MissingPackageError(
            f"the data service needs {' and '.join(absent)}, which this image does not have; add"
            f" {' '.join(absent)} to the requirements.txt beside the script"
        )


def grpc() -> Any:
    """The module. Raises MissingPackageError."""
    require()
    import grpc

    return grpc
