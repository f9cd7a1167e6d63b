"""Puts the recipes into a wheel: hatchling's build hook (pyproject.toml).

An editable install has the checkout itself.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).absolute().parents[1]
# Where dlc.core.checkout.INSTALLED looks.
TARGET = "dlc/recipes"
# What `dlc test`, `dlc init` and `dlc help` take, besides the folders that images are made from.
MORE = (
    *("docs", "tests/container", "tests/harness", "tests/library/compiler/scripts"),
    *("examples/pytorch", "examples/tensorflow"),
)
FILES = ("tests/conftest.py", "pyproject.toml", "requirements-dev.lock")
# Locks of --set are of one checkout alone. The launcher's contract is tested with unit tests of the checkout.
LEFT_OUT = (
    *("docs/decisions/*", "docs/pictures/*"),
    *("docker/*/locks/*-set-*/*", "tests/container/test_launcher_contract.py"),
)


class WheelData(BuildHookInterface):
    """Adds every file of the tree that content keys are made from, and what `dlc test`, `init` and `help` need."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, each by its path here and the one in the wheel."""
        if version == "standard":
            build_data["force_include"] |= {str(ROOT / path): f"{TARGET}/{path}" for path in list_files()}


def list_files() -> list[str]:
    """List the files by their paths from the root, with the rules of the tool itself."""
    sys.path.insert(0, str(ROOT / "src"))
    from dlc.core.checkout import FOLDERS, read_tree

    found = [*read_tree(ROOT, (*FOLDERS, *MORE)), *FILES]
    return sorted(path for path in found if not any(fnmatch(path, pattern) for pattern in LEFT_OUT))
