"""`dlc test` of an installed dlc: it installs what the container tests import."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from dlc.buildspec.variant import normal_name
from dlc.cli.test import PYTEST
from dlc.core.checkout import find_root

ROOT = find_root(Path(__file__))
# Of the wheel, of its dependencies, and of images: a script there runs by an image's Python.
KNOWN = {"dlc", "dlc_runtime", "harness", "uv", "yaml", "cryptography"}
# Module -> package, where their names differ.
PACKAGES = {"testinfra": "pytest-testinfra"}


def list_imports(path: Path) -> set[str]:
    """Return the first names of all modules that a file imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_every_package_that_container_tests_import_is_installed_for_them() -> None:
    files = [*(ROOT / "tests/container").glob("*.py"), ROOT / "tests/conftest.py"]
    modules = {module for file in files for module in list_imports(file)} - KNOWN - sys.stdlib_module_names
    assert {PACKAGES.get(module, normal_name(module)) for module in modules} - {*PYTEST} == set()
    assert "spdx_tools" in modules
