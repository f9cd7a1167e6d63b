"""The linter runs inside images: libcst and the standard library are all that it imports, on Python 3.9 too."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[3] / "src/dlc_lint").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(SOURCES[0].parent).as_posix())
def test_it_imports_libcst_and_the_standard_library_alone(path: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    assert names <= {*sys.stdlib_module_names, "libcst", "dlc_lint"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(SOURCES[0].parent).as_posix())
def test_annotations_are_not_read_when_it_runs(path: Path) -> None:
    """`X | None` in an annotation is an error on Python 3.9 without this line."""
    code = ast.parse(path.read_text())
    annotated = any(isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation for node in ast.walk(code))
    future = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in code.body)
    assert future or not annotated
