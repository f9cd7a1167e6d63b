"""Puts the recipes into a wheel: hatchling's build hook (pyproject.toml).

An editable install has the checkout itself.
"""

from __future__ import annotations

import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
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
FILES = ("tests/conftest.py", "pyproject.toml", "requirements-dev.lock", "requirements-run.lock")
# Locks of --set are of one checkout alone. The launcher's contract is tested with unit tests of the checkout.
LEFT_OUT = (
    *("docs/decisions/*", "docs/pictures/*"),
    *("docker/*/locks/*-set-*/*", "tests/container/test_launcher_contract.py"),
)


class WheelData(BuildHookInterface):
    """Adds every file of the tree that content keys are made from, and what `dlc test`, `init` and `help` need."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name a folder with copies: hatchling puts what is named here nowhere else, and packages need it too."""
        if version != "standard":
            return
        self._copies = TemporaryDirectory(prefix="dlc-recipes-")
        for path in list_files():
            copy = Path(self._copies.name, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, copy)
        build_data["force_include"][self._copies.name] = TARGET

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if version == "standard":
            self._copies.cleanup()


def list_files() -> list[str]:
    """List the files by their paths from the root, with the rules of the tool itself."""
    sys.path.insert(0, str(ROOT / "src"))
    from dlc.core.checkout import FOLDERS, read_tree

    found = [*read_tree(ROOT, (*FOLDERS, *MORE)), *FILES]
    return sorted(path for path in found if not any(fnmatch(path, pattern) for pattern in LEFT_OUT))
